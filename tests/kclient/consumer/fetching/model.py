"""What tests of fetching share: a model of brokers that leads one partition, and a read of offsets."""

from __future__ import annotations

from kclient.types import TopicPartition
from tests.support.consumer_model import Model

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def model_with(*values: bytes, **options: object) -> Model:
    """Return a model of brokers with one partition, `T0`, which holds these records in one batch.

    Parameters:
        options: of the model and the consumer.
    """
    model = Model(**options)  # type: ignore[arg-type]
    (log,) = model.add_topic("t")
    if values:
        log.append(*values)
    return model


def offsets(model: Model, max_records: int = 1_000_000) -> list[int]:
    """Read, and return the offsets of the records."""
    return [offset for _, _, offset, _ in model.read(max_records)]
