"""The consumer group protocol (KIP-848): ConsumerGroupHeartbeat, and a coordinator that assigns the partitions."""
