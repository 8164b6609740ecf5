"""The replication of partitions: the roles of this broker's replicas."""
