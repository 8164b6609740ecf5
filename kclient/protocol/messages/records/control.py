"""The control records in partitions: transaction markers, and what KRaft writes about itself."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from kclient.protocol.declaration import Message, message
from kclient.protocol.schema import ZERO_UUID, Struct, array, fresh, int16, int32, int64, map_key, since, uint16


@message(versions="0")
class ControlRecordTypeSchema(Message):
    """The key of a control record: which kind it is."""

    type: int16 = 0


@message(versions="0")
class EndTxnMarker(Message):
    """The value of the control record that commits or aborts a transaction."""

    coordinator_epoch: int32 = 0


@message(versions="0-1", flexible="0+")
class LeaderChangeMessage(Message):
    """The first record of a KRaft leader's epoch: who leads and who voted for it."""

    version: int16 = 0
    leader_id: int32 = 0
    voters: list[Voter] = array()
    granting_voters: list[Voter] = array()

    class Voter(Struct):
        voter_id: int32 = 0
        voter_directory_id: Annotated[UUID, since(1)] = ZERO_UUID


@message(versions="0", flexible="0+")
class SnapshotHeaderRecord(Message):
    """The first record of a snapshot of the metadata log."""

    version: int16 = 0
    last_contained_log_timestamp: int64 = 0


@message(versions="0", flexible="0+")
class SnapshotFooterRecord(Message):
    """The last record of a snapshot of the metadata log."""

    version: int16 = 0


@message(versions="0", flexible="0+")
class KRaftVersionRecord(Message):
    """The version of the KRaft protocol in use (KIP-853)."""

    version: int16 = 0
    kraft_version: int16 = 0


@message(versions="0", flexible="0+")
class VotersRecord(Message):
    """The voters of a KRaft quorum (KIP-853)."""

    version: int16 = 0
    voters: list[Voter] = array()

    class Voter(Struct):
        voter_id: int32 = 0
        voter_directory_id: UUID = ZERO_UUID
        endpoints: list[VotersRecord.Endpoint] = array()
        kraft_version_feature: VotersRecord.KRaftVersionFeature = fresh(lambda: VotersRecord.KRaftVersionFeature())

    class Endpoint(Struct):
        name: Annotated[str, map_key] = ""
        host: str = ""
        port: uint16 = 0

    class KRaftVersionFeature(Struct):
        min_supported_version: int16 = 0
        max_supported_version: int16 = 0
