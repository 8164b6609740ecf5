"""`quorum-state` beside the metadata log: the epoch of this node, the leader, and the vote of this node.

One line of JSON. Version 0 (kraft.version 0) has the voters from the settings, version 1 the voted node's directory:

    {"clusterId":"","leaderId":1,"leaderEpoch":2,"votedId":-1,"appliedOffset":0,"currentVoters":[{"voterId":1}],
     "data_version":0}
    {"leaderId":1,"leaderEpoch":2,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}

It is written before anything is appended in an epoch, so that no epoch is used twice even if the log loses its end. A
node that was the leader starts a new epoch when it starts. Source: KIP-595, KIP-853.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec

from kclient.errors import KafkaStorageError
from refbroker.log import Files
from refbroker.log.checkpoints import encode_uuid

QUORUM_STATE = "quorum-state"
NOBODY = -1


@dataclass(frozen=True, slots=True)
class QuorumState:
    """The contents of the file.

    Attributes:
        leader_id: -1 if it is unknown.
        voters: the ids of the voters in version 0.
    """

    leader_id: int
    leader_epoch: int
    voters: tuple[int, ...] = ()

    def encode(self, kraft_version: int) -> bytes:
        """Return the contents of the file, in the version for the `kraft.version`."""
        fields: dict[str, Any] = {"leaderId": self.leader_id, "leaderEpoch": self.leader_epoch, "votedId": NOBODY}
        if kraft_version == 0:
            voters = [{"voterId": voter} for voter in self.voters]
            fields = {"clusterId": "", **fields, "appliedOffset": 0, "currentVoters": voters, "data_version": 0}
        else:
            fields |= {"votedDirectoryId": encode_uuid(UUID(int=0)), "data_version": 1}
        return msgspec.json.encode(fields)


def read_quorum_state(files: Files, directory: Path) -> QuorumState | None:
    """Return the state, None if there is no file yet.

    Parameters:
        directory: the directory of the metadata log.

    Raises:
        KafkaStorageError: the file is damaged.
        OSError: the disk fails.
    """
    path = directory / QUORUM_STATE
    if not files.exists(path):
        return None
    try:
        fields = msgspec.json.decode(files.read_bytes(path))
        if fields["data_version"] not in (0, 1):
            raise ValueError(f"version {fields['data_version']}")
        voters = fields.get("currentVoters") or []
        return QuorumState(
            int(fields["leaderId"]), int(fields["leaderEpoch"]), tuple(int(voter["voterId"]) for voter in voters)
        )
    except (ValueError, KeyError, TypeError) as error:
        raise KafkaStorageError(
            f"{path} is damaged: {error}; restore it, or move it away if this node has been the only controller"
        ) from error


def write_quorum_state(files: Files, directory: Path, state: QuorumState, kraft_version: int) -> None:
    """Replace the file.

    Parameters:
        directory: the directory of the metadata log.

    Raises:
        OSError: the disk fails.
    """
    files.write_bytes(directory / QUORUM_STATE, state.encode(kraft_version))
