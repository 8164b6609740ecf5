"""The records that remove from an image what a later snapshot lacks.

A snapshot has the state of the cluster, not the changes that led to it. A node that continues from one replays these
records and then those of the snapshot, so that its image stays the same object, and its listeners get records as after
any other change. Registrations of controllers cannot be removed by a record. Elsewhere: the conversion of an image to
records (`image_records`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kclient.protocol import Message
from kclient.protocol.messages.records.metadata_log import (
    ClientQuotaRecord,
    ConfigRecord,
    FeatureLevelRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    UnregisterBrokerRecord,
)
from refbroker.metadata.image import ClusterImage


def removal_records(image: ClusterImage, snapshot: Iterable[Message]) -> Iterator[Message]:
    """Yield the records that remove what a snapshot lacks.

    Parameters:
        image: the state before; it may change only after the last record was yielded.
        snapshot: the records of the snapshot.
    """
    later = ClusterImage()
    for record in snapshot:
        later.replay(record)
    for name in image.features.keys() - later.features.keys():
        yield FeatureLevelRecord(name=name, feature_level=0)
    for topic in image.topics.values():
        if topic.topic_id not in later.topics_by_id:
            yield RemoveTopicRecord(topic_id=topic.topic_id)
    for (kind, resource), settings in image.configs.items():
        for name in settings.keys() - later.config(kind, resource).keys():
            yield ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=None)
    for key in image.quotas.keys() - later.quotas.keys():
        quota = image.quotas[key]
        yield ClientQuotaRecord(entity=quota.entity, key=quota.key, value=quota.value, remove=True)
    for acl in image.acls.keys() - later.acls.keys():
        yield RemoveAccessControlEntryRecord(id=acl)
    for mechanism, user in image.scram.keys() - later.scram.keys():
        yield RemoveUserScramCredentialRecord(name=user, mechanism=mechanism)
    for token in image.tokens.keys() - later.tokens.keys():
        yield RemoveDelegationTokenRecord(token_id=token)
    for broker in image.brokers.values():
        if broker.broker_id not in later.brokers:
            yield UnregisterBrokerRecord(broker_id=broker.broker_id, broker_epoch=broker.broker_epoch)
