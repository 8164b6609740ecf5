"""The life of a broker under a controller: registration, heartbeats, and controlled shutdown (KIP-631)."""
