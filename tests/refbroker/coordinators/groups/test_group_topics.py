"""The hash of a group's topics is Kafka's: numbers that hash4j 0.22 and Kafka 4.3.1's Utils gave."""

from __future__ import annotations

from uuid import UUID

import pytest
import xxhash

from kclient.protocol.messages.records.metadata_log import PartitionRecord, TopicRecord
from refbroker.coordinators.groups.consumer.topics import GroupTopics, topic_hash
from refbroker.metadata.image import ClusterImage, PartitionState, TopicState

TOPIC_ID = UUID(int=0x0123456789ABCDEFFEDCBA9876543210)

HASHES = {
    0: 3244421341483603138,
    1: 1433843135270481901,
    2: 2058273368586827884,
    3: 12180141160879835164,
    4: 7895465118229274323,
    7: 10268930274873212462,
    8: 6941064856527638883,
    9: 18374517719163151272,
    15: 11439541028034589121,
    16: 13314990914799711621,
    17: 8163341949877205007,
    31: 17096134949297616051,
    32: 1873302701886544469,
    33: 4486878507168070088,
    64: 2917965298538373825,
    65: 9408609914592003654,
    100: 13083933661539568799,
    128: 7440608504995537343,
    129: 14295761343243267012,
    160: 15496299788031539331,
    200: 8389308914288017243,
    239: 2127415575477209850,
    240: 7229805477010515663,
    241: 10082113959289486871,
    255: 13149215926256561209,
    256: 4339360625268998362,
    257: 3039943168460295846,
    500: 13311583139899777642,
    1024: 11205349619999208113,
    1025: 9253807012321506678,
    1100: 10267856132940489763,
    3000: 14452465426031733565,
}


@pytest.mark.parametrize(("length", "expected"), HASHES.items())
def test_xxhash_gives_the_numbers_of_hash4j(length: int, expected: int) -> None:
    assert xxhash.xxh3_64_intdigest(bytes((number * 7 + 3) & 0xFF for number in range(length))) == expected


@pytest.mark.parametrize(
    ("partitions", "expected"),
    [(1, 5799863671618944189), (3, 8011478891053706058), (50, 2164111585099634786)],
)
def test_the_hash_of_a_topic(partitions: int, expected: int) -> None:
    states = {number: PartitionState(number, [0], [0], 0, 0, 0, [], [], []) for number in range(partitions)}
    assert topic_hash(TopicState("täst", TOPIC_ID, states), lambda topic, number: ["rack1"]) == expected


def test_the_hash_of_a_group_follows_its_topics_alone() -> None:
    image = ClusterImage()
    topics = GroupTopics(lambda: image)

    def change(*records: TopicRecord | PartitionRecord) -> None:
        for record in records:
            image.replay(record)
        assert topics.follow(records)

    assert topics.hash_of(["t"]) == 0
    change(TopicRecord(name="t", topic_id=TOPIC_ID), PartitionRecord(partition_id=0, topic_id=TOPIC_ID, replicas=[0]))
    one = topics.hash_of(["t"])
    assert one == topics.hash_of(["t", "not there"]) != 0
    change(TopicRecord(name="u", topic_id=UUID(int=2)))
    assert topics.hash_of(["t"]) == one != topics.hash_of(["u", "t"]) == topics.hash_of(["t", "u"])
    change(PartitionRecord(partition_id=1, topic_id=TOPIC_ID, replicas=[0]))
    assert topics.hash_of(["t"]) != one
