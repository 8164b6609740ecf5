"""The classic protocol of consumer groups: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, and a leader that assigns."""
