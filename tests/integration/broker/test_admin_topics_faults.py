"""The admin client's calls about topics while a broker does not know of the change yet, and hangs up."""

from __future__ import annotations

from kclient import Admin, NewTopic
from refbroker.testing import RefBroker


def test_a_lost_connection_does_not_count_as_an_answer_that_shows_the_topic(kafka: RefBroker) -> None:
    with Admin(bootstrap_servers=kafka.bootstrap_servers, retry_backoff_ms=1) as admin:
        admin.list_topics()
        cut = kafka.faults.cut("Metadata", count=1)
        behind = kafka.faults.fail("Metadata", "UNKNOWN_TOPIC_OR_PARTITION", topic="t", count=3)
        admin.create_topics([NewTopic("t")])
        assert (cut.fired, behind.fired) == (1, 3)
