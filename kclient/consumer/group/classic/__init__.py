"""The classic group protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, and a leader that assigns the partitions."""
