"""Client quotas: how much of the broker each client may use, and how long a client must wait that has used more."""
