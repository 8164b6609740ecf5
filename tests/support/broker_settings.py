"""Settings of brokers that serve a whole run. Imports nothing: a conftest imports this before it chooses the twins."""

KEEP_OLD_RECORDS = {"log.retention.ms": "-1"}
"""Many tests write records that are years old. The retention check, every five minutes (in Apache Kafka first after 30
seconds), would delete these records in the middle of a test."""
