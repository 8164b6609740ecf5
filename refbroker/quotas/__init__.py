"""Client quotas: how fast clients use the broker, and how long those must wait that exceed their quotas."""
