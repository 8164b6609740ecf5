"""Settings of brokers that serve a whole run. Imports nothing: a conftest imports this before it chooses the twins."""

KEEP_OLD_RECORDS = {"log.retention.ms": "-1"}
"""Many tests write records that are years old. Retention, which is checked every five minutes (the first time after 30
seconds with Apache Kafka), would delete them in the middle of whichever test runs at that moment."""
