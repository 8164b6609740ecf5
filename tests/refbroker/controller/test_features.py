"""Features of the cluster: which are returned, and which changes of their levels are refused and why."""

from __future__ import annotations

from typing import Any

import pytest

from kclient.protocol.messages.api_versions import ApiVersionsRequest
from kclient.protocol.messages.records.metadata_log import (
    BrokerRegistrationChangeRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
)
from kclient.protocol.messages.update_features import UpdateFeaturesRequest
from refbroker.metadata.versions import (
    LATEST,
    METADATA_VERSIONS,
    OLDEST,
    encode_record,
    metadata_changes_between,
)
from tests.support.broker_harness import Harness

UNKNOWN, UPGRADE, SAFE, UNSAFE = 0, 1, 2, 3
INVALID_UPDATE_VERSION = 95


def update(harness: Harness, *wanted: tuple[str, int, int], validate_only: bool = False, version: int = 2) -> Any:
    updates = [
        UpdateFeaturesRequest.FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
        for name, level, kind in wanted
    ]
    return harness.send(UpdateFeaturesRequest(feature_updates=updates, validate_only=validate_only), version)


def told(harness: Harness) -> dict[str, int]:
    answer = harness.send(ApiVersionsRequest(client_software_name="test", client_software_version="1"), 4)
    assert answer.finalized_features_epoch == harness.broker.metadata.end_offset - 1
    return {feature.name: feature.max_version_level for feature in answer.finalized_features}


def finalize(harness: Harness, name: str, level: int) -> None:
    harness.broker.controller.append([FeatureLevelRecord(name=name, feature_level=level)])


def others(group_version: int = 1, transaction_version: int = 2) -> dict[str, int]:
    return {"group.version": group_version, "transaction.version": transaction_version}


async def test_a_new_cluster_is_at_the_latest_level(harness: Harness) -> None:
    assert told(harness) == {"metadata.version": LATEST, **others()}


async def test_older_clients_do_not_receive_features_that_can_be_off(harness: Harness) -> None:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    older, newer = (harness.send(request, version).supported_features for version in (3, 4))
    assert {feature.name for feature in newer if feature.min_version == 0} == {"group.version", "transaction.version"}
    assert older == [feature for feature in newer if feature.min_version > 0]
    assert [feature.name for feature in older] == ["metadata.version"]


async def test_features_that_only_kafka_has_are_stored_but_not_advertised(harness: Harness) -> None:
    finalize(harness, "share.version", 1)
    assert told(harness) == {"metadata.version": LATEST, **others()}
    await harness.broker.metadata.take_snapshot()
    harness.restart()
    assert harness.broker.metadata.image.features == {"metadata.version": LATEST, **others(), "share.version": 1}
    # Who works without them can take them away.
    assert update(harness, ("share.version", 0, SAFE)).error_code == 0
    assert "share.version" not in harness.broker.metadata.image.features


async def test_an_upgrade_counts_at_once(harness: Harness) -> None:
    finalize(harness, "metadata.version", 27)
    answer = update(harness, ("metadata.version", 29, UPGRADE))
    assert (answer.error_code, answer.error_message, answer.results) == (0, None, [])
    assert told(harness) == {"metadata.version": 29, **others()}


async def test_a_downgrade_that_loses_nothing_is_carried_out(harness: Harness) -> None:
    finalize(harness, "metadata.version", 29)
    for level, kind in ((27, SAFE), (24, UNSAFE)):
        assert update(harness, ("metadata.version", level, kind)).error_code == 0
        assert told(harness) == {"metadata.version": level, **others()}


@pytest.mark.parametrize("level", [0, 1, 2])
async def test_transactions_can_be_of_each_version(harness: Harness, level: int) -> None:
    expected = {"metadata.version": LATEST, **others(transaction_version=level)}
    if not level:
        del expected["transaction.version"]
    assert update(harness, ("transaction.version", level, UPGRADE if level == 2 else SAFE)).error_code == 0
    assert told(harness) == expected
    harness.restart()
    assert told(harness) == expected


@pytest.mark.parametrize("version", [0, 1])
async def test_old_versions_answer_for_each_feature(harness: Harness, version: int) -> None:
    [result] = update(harness, ("metadata.version", LATEST, UPGRADE), version=version).results
    assert (result.feature, result.error_code, result.error_message) == ("metadata.version", 0, None)


async def test_validating_changes_nothing(harness: Harness) -> None:
    finalize(harness, "metadata.version", 27)
    end = harness.broker.metadata.end_offset
    assert update(harness, ("metadata.version", 29, UPGRADE), validate_only=True).error_code == 0
    assert update(harness, ("metadata.version", 31, UPGRADE), validate_only=True).error_code == INVALID_UPDATE_VERSION
    assert (told(harness), harness.broker.metadata.end_offset) == ({"metadata.version": 27, **others()}, end)


@pytest.mark.parametrize(
    ("name", "level", "kind", "reason"),
    [
        ("metadata.version", LATEST + 1, UPGRADE, "Local controller 1 only supports versions 7-30"),
        ("metadata.version", OLDEST - 1, SAFE, "Local controller 1 only supports versions 7-30"),
        ("metadata.version", -1, SAFE, "A feature version cannot be less than 0."),
        ("metadata.version", 28, UPGRADE, "Can't downgrade the version of this feature without setting"),
        ("metadata.version", 30, SAFE, "Can't downgrade to a newer version."),
        ("metadata.version", 28, UNKNOWN, "The controller does not support the given upgrade type."),
        ("metadata.version", 28, 9, "The controller does not support the given upgrade type."),
        ("metadata.version", 22, SAFE, "from 29 to 22. Refusing to perform the requested downgrade"),
        ("metadata.version", 22, UNSAFE, "from 29 to 22. Unsafe metadata downgrade is not supported"),
        ("share.version", 1, UPGRADE, "Local controller 1 does not support this feature."),
        ("group.version", 2, UPGRADE, "Local controller 1 only supports versions 0-1"),
        ("transaction.version", 3, UPGRADE, "Local controller 1 only supports versions 0-2"),
        ("transaction.version", 1, UPGRADE, "Can't downgrade the version of this feature without setting"),
        ("foo.version", 3, UPGRADE, "Invalid update version 3 for feature foo.version. Local controller 1 does not"),
        ("foo.version", 0, UPGRADE, "Feature foo.version not found."),
    ],
)
async def test_what_cannot_be_is_refused_with_kafkas_reason(
    harness: Harness, name: str, level: int, kind: int, reason: str
) -> None:
    finalize(harness, "metadata.version", 29)
    answer = update(harness, (name, level, kind))
    assert answer.error_code == INVALID_UPDATE_VERSION
    assert answer.error_message.startswith("The update failed for all features since the following feature had an ")
    assert reason in answer.error_message
    assert told(harness) == {"metadata.version": 29, **others()}


async def test_one_update_that_is_refused_stops_all(harness: Harness) -> None:
    finalize(harness, "metadata.version", 27)
    answer = update(harness, ("metadata.version", 29, UPGRADE), ("foo.version", 1, UPGRADE), version=1)
    assert (answer.error_code, answer.results) == (INVALID_UPDATE_VERSION, [])
    assert told(harness) == {"metadata.version": 27, **others()}


async def test_every_registered_broker_must_support_a_level(harness: Harness) -> None:
    finalize(harness, "metadata.version", 27)
    harness.broker.controller.append(
        [
            RegisterBrokerRecord(
                broker_id=2,
                features=[
                    RegisterBrokerRecord.BrokerFeature(
                        name="metadata.version", min_supported_version=7, max_supported_version=28
                    )
                ],
            )
        ]
    )
    answer = update(harness, ("metadata.version", 29, UPGRADE))
    assert "Broker 2 only supports versions 7-28" in answer.error_message
    assert update(harness, ("metadata.version", 28, UPGRADE)).error_code == 0


def test_the_levels_are_those_of_kafka() -> None:
    assert METADATA_VERSIONS[0][:2] == (7, "3.3-IV3")
    assert METADATA_VERSIONS[-1][:2] == (30, "4.3-IV0")
    named = {version.name: version.level for version in METADATA_VERSIONS}
    assert (named["3.6-IV1"], named["3.7-IV4"], named["4.0-IV1"], named["4.1-IV1"]) == (13, 19, 23, 27)
    changing = {version.level for version in METADATA_VERSIONS if version.changes_metadata}
    assert changing == {7, 8, 11, 13, 14, 15, 17, 23, 30}


def test_metadata_changes_count_from_above_the_lower_level() -> None:
    assert not metadata_changes_between(29, 23)
    assert metadata_changes_between(23, 22)
    assert metadata_changes_between(30, 7)
    assert not metadata_changes_between(30, 30)


@pytest.mark.parametrize(
    ("record", "level", "version"),
    [
        (RegisterBrokerRecord(rack=None), 7, 1),
        (RegisterBrokerRecord(rack=None), 8, 2),
        (RegisterBrokerRecord(rack=None), 17, 3),
        (RegisterBrokerRecord(rack=None), 30, 4),
        (PartitionRecord(), 16, 0),
        (PartitionRecord(), 17, 1),
        (PartitionChangeRecord(), 22, 1),
        (PartitionChangeRecord(), 23, 2),
        (BrokerRegistrationChangeRecord(fenced=1), 30, 0),
        (BrokerRegistrationChangeRecord(in_controlled_shutdown=1), 30, 1),
        (BrokerRegistrationChangeRecord(cordoned_log_dirs=[]), 30, 3),
        (FeatureLevelRecord(), 30, 0),
    ],
)
def test_records_are_written_in_the_version_of_the_level(record: Any, level: int, version: int) -> None:
    # Frame version, type, version, as unsigned varints.
    assert encode_record(record, level)[2] == version
