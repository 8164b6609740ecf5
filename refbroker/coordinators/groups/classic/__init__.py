"""The classic group protocol: JoinGroup, SyncGroup, Heartbeat and LeaveGroup. Begin with `machine`."""
