"""The consumer protocol of groups (KIP-848): ConsumerGroupHeartbeat, and a coordinator that assigns."""
