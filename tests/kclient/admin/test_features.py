"""Features of a cluster: what a node knows of them, and changes, which old brokers take in another form."""

from __future__ import annotations

from typing import Any

import pytest

from kclient.admin.features import (
    FeatureMetadata,
    FeatureUpdate,
    FinalizedVersionRange,
    SupportedVersionRange,
    UpgradeType,
    describe_features,
    update_features,
)
from kclient.errors import (
    AdminError,
    BrokerNotAvailableError,
    ConfigError,
    InvalidUpdateVersionError,
    UnsupportedVersionError,
)
from kclient.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kclient.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from tests.kclient.admin.scripted import Cluster, ScriptedCore, finished, nodes_asked, soon

UP, DOWN, LOSSY = UpgradeType.UPGRADE, UpgradeType.SAFE_DOWNGRADE, UpgradeType.UNSAFE_DOWNGRADE


def versions(node: int, request: ApiVersionsRequest) -> ApiVersionsResponse:
    kind = ApiVersionsResponse
    return kind(
        supported_features=[
            kind.SupportedFeatureKey(name="transaction.version", min_version=0, max_version=2),
            kind.SupportedFeatureKey(name="metadata.version", min_version=7, max_version=30),
        ],
        finalized_features=[
            kind.FinalizedFeatureKey(name="metadata.version", min_version_level=29, max_version_level=29)
        ],
        finalized_features_epoch=42,
    )


def test_features_are_those_that_a_broker_supports_and_those_that_are_finalized() -> None:
    core = ScriptedCore(Cluster(ApiVersions=versions))
    assert finished(describe_features(core, None, soon())) == FeatureMetadata(
        {"metadata.version": FinalizedVersionRange(29, 29)},
        42,
        {"metadata.version": SupportedVersionRange(7, 30), "transaction.version": SupportedVersionRange(0, 2)},
    )
    ((_, request, version),) = core.asked
    assert isinstance(request, ApiVersionsRequest)
    assert (request.client_software_name, version) == ("kclient", 4)


def test_a_certain_broker_can_be_asked_if_it_is_there() -> None:
    core = ScriptedCore(Cluster(ApiVersions=versions))
    finished(describe_features(core, 2, soon()))
    assert nodes_asked(core, ApiVersionsRequest) == [2]
    with pytest.raises(BrokerNotAvailableError, match="no broker 7 that is alive; there is 1, 2"):
        finished(describe_features(core, 7, soon()))


def test_a_broker_without_features_is_too_old() -> None:
    core = ScriptedCore(Cluster(ApiVersions=versions), newest={ApiVersionsRequest: 2})
    with pytest.raises(UnsupportedVersionError):
        finished(describe_features(core, None, soon()))


def updating(*answers: UpdateFeaturesResponse, **core: Any) -> ScriptedCore:
    left = list(answers)
    return ScriptedCore(Cluster(UpdateFeatures=lambda node, request: left.pop(0)), **core)


def update(core: ScriptedCore, updates: Any, validate_only: bool = False) -> Any:
    return finished(update_features(core, updates, validate_only, soon("update_features")))


def sent(core: ScriptedCore) -> list[UpdateFeaturesRequest]:
    return [request for _, request, _ in core.asked if isinstance(request, UpdateFeaturesRequest)]


def test_an_update_has_a_level_and_a_direction_for_each_feature() -> None:
    core = updating(UpdateFeaturesResponse())
    changes = {"a": FeatureUpdate(3), "b": FeatureUpdate(1, DOWN), "c": FeatureUpdate(0, LOSSY)}
    assert update(core, changes, validate_only=True) == {"a": None, "b": None, "c": None}
    (request,) = sent(core)
    assert request.validate_only
    assert [(each.feature, each.max_version_level, each.upgrade_type) for each in request.feature_updates] == [
        ("a", 3, 1),
        ("b", 1, 2),
        ("c", 0, 3),
    ]


def test_a_refused_update_is_raised_with_the_reason() -> None:
    answer = UpdateFeaturesResponse(error_code=InvalidUpdateVersionError.code, error_message="a supports 0-2")
    core = updating(UpdateFeaturesResponse(error_code=41), answer)
    with pytest.raises(InvalidUpdateVersionError, match="a supports 0-2; describe_features shows the levels"):
        update(core, {"a": FeatureUpdate(3)})
    assert len(sent(core)) == 2


def test_an_old_broker_has_a_result_for_each_feature() -> None:
    kind = UpdateFeaturesResponse.UpdatableFeatureResult
    answer = UpdateFeaturesResponse(
        results=[kind(feature="a", error_code=InvalidUpdateVersionError.code), kind(feature="b")]
    )
    core = updating(answer, newest={UpdateFeaturesRequest: 1})
    with pytest.raises(AdminError) as caught:
        update(core, {"a": FeatureUpdate(3), "b": FeatureUpdate(2)})
    assert isinstance(caught.value.errors["a"], InvalidUpdateVersionError)
    assert caught.value.results == {"b": None}


def test_the_oldest_brokers_know_downgrades_but_not_whether_they_are_safe() -> None:
    core = updating(UpdateFeaturesResponse(), newest={UpdateFeaturesRequest: 0})
    update(core, {"a": FeatureUpdate(3), "b": FeatureUpdate(1, DOWN)})
    assert [each.allow_downgrade for each in sent(core)[0].feature_updates] == [False, True]
    for changes, validate_only in (({"a": FeatureUpdate(1, LOSSY)}, False), ({"a": FeatureUpdate(3)}, True)):
        with pytest.raises(UnsupportedVersionError):
            update(core, changes, validate_only)


@pytest.mark.parametrize(("level", "kind"), [(-1, DOWN), (0, UP)])
def test_a_level_must_fit_its_direction(level: int, kind: UpgradeType) -> None:
    with pytest.raises(ConfigError, match="level"):
        FeatureUpdate(level, kind)


@pytest.mark.parametrize("updates", [{}, {"": FeatureUpdate(1)}])
def test_an_update_names_a_feature(updates: Any) -> None:
    core = updating()
    with pytest.raises(ConfigError, match="at least one feature"):
        update(core, updates)
