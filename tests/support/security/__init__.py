"""The suite over TLS with SASL (`--security=sasl_ssl`): brokers that require it, and what clients need for them."""
