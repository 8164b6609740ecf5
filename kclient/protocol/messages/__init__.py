"""The messages of the protocol, one module per API: its request and response side by side."""
