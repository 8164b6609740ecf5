"""The replication of partitions: the roles of this broker's replicas, and what waits for their high watermarks."""
