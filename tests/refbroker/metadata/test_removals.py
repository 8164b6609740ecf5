"""The records that remove from an image what a snapshot lacks: with those of the snapshot they give its image."""

from __future__ import annotations

import random
from uuid import UUID

import pytest

from kclient.protocol import Message
from kclient.protocol.messages.records.metadata_log import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    FeatureLevelRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
    UserScramCredentialRecord,
)
from refbroker.metadata.image_records import image_records
from refbroker.metadata.removals import removal_records
from tests.refbroker.metadata.metadata_logs import image_of, state_of


def some_state(rng: random.Random) -> list[Message]:
    """Return records of every kind, of which another call returns some others."""

    def few() -> list[int]:
        return rng.sample(range(4), rng.randint(0, 4))

    entity = ClientQuotaRecord.EntityData
    records: list[Message] = [FeatureLevelRecord(name="metadata.version", feature_level=30)]
    records += [FeatureLevelRecord(name=f"f{n}", feature_level=1) for n in few()]
    records += [RegisterBrokerRecord(broker_id=n, broker_epoch=rng.randint(1, 2)) for n in few()]
    for n in few():
        # The same name may belong to another topic later.
        topic_id = UUID(int=10 * n + rng.randint(0, 1))
        records.append(TopicRecord(name=f"t{n}", topic_id=topic_id))
        records += [PartitionRecord(partition_id=number, topic_id=topic_id, replicas=[1]) for number in few()]
    records += [
        ConfigRecord(resource_type=kind, resource_name=str(n), name=f"s{rng.randint(0, 1)}", value="v")
        for kind in (2, 4)
        for n in few()
    ]
    records += [
        ClientQuotaRecord(entity=[entity(entity_type="user", entity_name=f"u{n}")], key="k", value=float(n))
        for n in few()
    ]
    records += [AccessControlEntryRecord(id=UUID(int=n + 1), principal=f"User:u{n}") for n in few()]
    records += [UserScramCredentialRecord(name=f"u{n}", mechanism=1 + n % 2, iterations=4096) for n in few()]
    records += [DelegationTokenRecord(token_id=f"d{n}") for n in few()]
    return records


@pytest.mark.parametrize("seed", range(100))
def test_removals_and_the_snapshot_give_the_image_of_the_snapshot(seed: int) -> None:
    rng = random.Random(seed)
    image, later = image_of(some_state(rng)), image_of(some_state(rng))
    snapshot = list(image_records(later))
    for record in [*removal_records(image, snapshot), *snapshot]:
        image.replay(record)
    assert state_of(image) == state_of(later)
