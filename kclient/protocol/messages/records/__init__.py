"""The records of the logs that brokers keep for themselves."""
