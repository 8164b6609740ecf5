"""What the codec does with values, versions and bytes that are out of the ordinary."""

from __future__ import annotations

import copy
import pickle
import struct
import subprocess
import sys
from typing import Annotated, Any
from uuid import UUID

import pytest

from kclient.errors import ProtocolError
from kclient.protocol import lookup
from kclient.protocol.declaration import Message, message
from kclient.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from kclient.protocol.messages.fetch import FetchRequest, FetchResponse
from kclient.protocol.messages.heartbeat import HeartbeatRequest
from kclient.protocol.messages.join_group import JoinGroupRequest
from kclient.protocol.messages.list_offsets import ListOffsetsRequest
from kclient.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kclient.protocol.messages.produce import ProduceRequest
from kclient.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kclient.protocol.messages.sync_group import SyncGroupResponse
from kclient.protocol.schema import Struct, Versions, array, int32, since, tagged
from kclient.protocol.wire import read_uvarint, uvarint


class FileRange:
    """Stands for records that the transport sends from a file."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size


def fetch_response(records: object) -> FetchResponse:
    partition = FetchResponse.PartitionData(partition_index=1, records=records)
    return FetchResponse(responses=[FetchResponse.FetchableTopicResponse(topic="orders", partitions=[partition])])


def test_fields_have_kafkas_defaults() -> None:
    request = FetchRequest()
    assert (request.replica_id, request.max_bytes, request.topics, request.cluster_id) == (-1, 2**31 - 1, [], None)
    assert request.replica_state == FetchRequest.ReplicaState(replica_id=-1, replica_epoch=-1)
    assert FetchRequest().topics is not request.topics
    assert FetchRequest().replica_state is not request.replica_state


def test_a_value_that_the_version_lacks_is_an_error() -> None:
    request = HeartbeatRequest(group_id="g", group_instance_id="static")
    assert HeartbeatRequest.decode(request.encode(3), 3) == request
    with pytest.raises(ProtocolError, match="HeartbeatRequest v2: group_instance_id is set, but version 2"):
        request.encode(2)


def test_an_ignorable_value_is_dropped_where_the_version_lacks_it() -> None:
    request = FetchRequest(rack_id="a")
    assert FetchRequest.decode(request.encode(10), 10).rack_id == ""
    assert FetchRequest.decode(request.encode(11), 11).rack_id == "a"


def test_null_is_an_error_at_a_version_that_cannot_carry_it() -> None:
    assert MetadataRequest.decode(MetadataRequest(topics=None).encode(1), 1).topics is None
    with pytest.raises(ProtocolError, match="MetadataRequest v0: topics"):
        MetadataRequest(topics=None).encode(0)


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (HeartbeatRequest(generation_id=2**31), "generation_id must be an int32, not 2147483648"),
        (HeartbeatRequest(group_id=None), "group_id"),  # type: ignore[arg-type]
        (HeartbeatRequest(group_id=7), "group_id must be a string, not int"),  # type: ignore[arg-type]
        (HeartbeatRequest(group_id="x" * 32768), "group_id: a string of 32768 bytes"),
        (HeartbeatRequest(group_id="\ud800"), "surrogates not allowed"),
    ],
    ids=["too large", "null", "a number", "too long", "a surrogate"],
)
def test_a_value_of_the_wrong_kind_is_an_error_that_names_the_field(request_: HeartbeatRequest, text: str) -> None:
    with pytest.raises(ProtocolError, match=text):
        request_.encode(4)


def test_an_error_within_an_array_says_where() -> None:
    topics = [
        ListOffsetsRequest.ListOffsetsTopic(name="a"),
        ListOffsetsRequest.ListOffsetsTopic(partitions=["x"]),  # type: ignore[list-item]
    ]
    with pytest.raises(ProtocolError, match=r"topics\[1\].partitions\[0\] must be a ListOffsetsRequest"):
        ListOffsetsRequest(topics=topics).encode(6)


def test_a_version_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(ProtocolError, match="FetchRequest has versions 4 to 18, not 3"):
        FetchRequest().encode(3)
    with pytest.raises(ProtocolError, match="not 19"):
        FetchRequest.decode(b"", 19)


def test_records_are_a_view_of_the_input() -> None:
    data = bytearray(fetch_response(b"batch").encode(12))
    records = FetchResponse.decode(data, 12).responses[0].partitions[0].records
    assert isinstance(records, memoryview)
    assert bytes(records) == b"batch"
    data[data.index(b"batch")] = ord("c")
    assert bytes(records) == b"catch"


@pytest.mark.parametrize("version", [4, 11, 12, 17])
def test_records_of_any_kind_pass_through_in_parts(version: int) -> None:
    records = FileRange(100_000)
    parts = fetch_response(records).encode_parts(version)
    assert parts[1] is records
    whole = parts[0] + bytes(100_000) + b"".join(parts[2:])
    assert whole == fetch_response(bytes(100_000)).encode(version)
    with pytest.raises(ProtocolError, match="encode_parts"):
        fetch_response(records).encode(version)


def test_large_records_are_not_copied_in_parts() -> None:
    records = bytes(5000)
    topic = ProduceRequest.TopicProduceData(
        name="t", partition_data=[ProduceRequest.PartitionProduceData(index=0, records=records)]
    )
    assert any(part is records for part in ProduceRequest(topic_data=[topic]).encode_parts(9))


def test_unknown_tagged_fields_are_kept() -> None:
    request = HeartbeatRequest(group_id="g", unknown_tagged_fields=((7, b"seven"), (2000, b"")))
    data = request.encode(4)
    assert data.endswith(b"\x02\x07\x05seven\xd0\x0f\x00")
    again = HeartbeatRequest.decode(data, 4)
    assert again.unknown_tagged_fields == ((7, b"seven"), (2000, b""))
    assert again == request
    assert again != HeartbeatRequest(group_id="g")
    with pytest.raises(ProtocolError, match="unknown_tagged_fields is set, but version 3"):
        request.encode(3)


def test_unknown_and_known_tagged_fields_are_sent_in_order() -> None:
    request = FetchRequest(cluster_id="c", unknown_tagged_fields=((9, b"x"),))
    assert request.encode(12).endswith(b"\x02\x00\x02\x02c\x09\x01x")
    assert FetchRequest.decode(request.encode(12), 12) == request
    with pytest.raises(ProtocolError, match="tag 0 is set twice"):
        FetchRequest(cluster_id="c", unknown_tagged_fields=((0, b"x"),)).encode(12)


@pytest.mark.parametrize("version", [4, 12])
def test_unknown_tagged_fields_out_of_order_are_put_in_order(version: int) -> None:
    kind: type[Message] = HeartbeatRequest if version == 4 else FetchRequest
    tags = b"\x03\x09\x01a\x07\x01b\x09\x01c"
    data = kind().encode(version)[:-1] + tags
    decoded = kind.decode(data, version)
    assert decoded.unknown_tagged_fields == ((7, b"b"), (9, b"c"))
    assert kind.decode(decoded.encode(version), version) == decoded


def test_many_unknown_tagged_fields_take_linear_time() -> None:
    tags = tuple((number, b"") for number in range(20_000))
    request = HeartbeatRequest(unknown_tagged_fields=tags)
    assert HeartbeatRequest.decode(request.encode(4), 4).unknown_tagged_fields == tags


def test_a_tagged_field_must_fill_its_size() -> None:
    data = FetchRequest(cluster_id="c").encode(12)
    assert data.endswith(b"\x01\x00\x02\x02c")
    with pytest.raises(ProtocolError, match="tagged field of 3 bytes holds 2"):
        FetchRequest.decode(data[:-3] + b"\x03\x02cx", 12)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "end within the message"),
        (b"\x00\x05ab", "group_id: 5 announced, but only 2 bytes are left"),
        (b"\xff\xff\x00\x00\x00\x00\x00\x00", "group_id: null"),
        (b"\x00\x02\xff\xfe\x00\x00\x00\x00\x00\x00", "not UTF-8"),
        (b"\x00\x00\x00\x00\x00\x00\x00\x00\x00", "1 bytes follow the message"),
        (b"\x00\x00\x00\x00\x00\x00\x00", "end within the message"),
    ],
)
def test_bad_bytes_are_an_error_that_says_what_is_wrong(data: bytes, text: str) -> None:
    with pytest.raises(ProtocolError, match=f"HeartbeatRequest v0: .*{text}"):
        HeartbeatRequest.decode(data, 0)


@pytest.mark.parametrize(
    "data",
    [b"\x80" * 6, b"\xff\xff\xff\xff\x7f", b"\xff\xff\xff\xff\xff\x01", b"\xff\xff\xff\xff\x0f", b"\x00", b"\x85\x80"],
)
def test_a_bad_varint_is_an_error(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        HeartbeatRequest.decode(data, 4)


@pytest.mark.parametrize("value", [0, 1, 127, 128, 16383, 16384, 2**21 - 1, 2**28, 2**32 - 1])
def test_varints(value: int) -> None:
    data = uvarint(value)
    assert read_uvarint(b"x" + data + b"y", 1) == (value, 1 + len(data))


def test_a_huge_count_allocates_nothing() -> None:
    data = struct.pack(">i", 2**31 - 1)
    with pytest.raises(ProtocolError, match="topics: 2147483647 announced, but only 0 bytes are left"):
        MetadataRequest.decode(data, 1)


@message(versions="0-1")
class EmptyElements(Message):
    elements: list[Nothing] = array()

    class Nothing(Struct):
        later: Annotated[int32, since(1)] = 0


def test_absurdly_many_elements_that_take_no_bytes_are_refused() -> None:
    assert len(EmptyElements.decode(struct.pack(">i", 65536), 0).elements) == 65536
    with pytest.raises(ProtocolError, match="65537 elements that take no bytes"):
        EmptyElements.decode(struct.pack(">i", 65537), 0)


@message(versions="0-2", flexible="1+")
class TaggedLater(Message):
    number: Annotated[int32, tagged(0, "2+")] = 5


def test_a_field_may_become_a_tagged_one() -> None:
    assert TaggedLater(number=7).encode(0) == b"\0\0\0\7"
    assert TaggedLater(number=7).encode(1) == b"\0\0\0\7\0"
    assert TaggedLater(number=7).encode(2) == b"\1\0\4\0\0\0\7"
    assert TaggedLater(number=5).encode(2) == b"\0"
    assert TaggedLater.decode(b"\0", 2).number == 5


@pytest.mark.parametrize(
    ("version", "null"), [(0, b"\xff\xff\xff\xff"), (3, b"\xff\xff\xff\xff"), (4, b"\x00"), (5, b"\x00")]
)
def test_bytes_that_others_send_as_null_are_empty_and_never_sent_so(version: int, null: bytes) -> None:
    response = SyncGroupResponse(error_code=27)
    sent = response.encode(version)
    tags = b"\x00" if SyncGroupResponse.is_flexible(version) else b""
    empty = b"\x01" if SyncGroupResponse.is_flexible(version) else bytes(4)
    assert sent.endswith(empty + tags)
    assert SyncGroupResponse.decode(sent.removesuffix(empty + tags) + null + tags, version) == response


def test_a_tagged_struct_that_is_null_has_the_bytes_of_the_java_client() -> None:
    kind: Any = lookup("ConsumerGroupMemberMetadataValue")
    data = bytes.fromhex("00000872646b61666b610b2f3132372e302e302e3102076f726465727301000493e00001000100")
    member = kind.decode(data, 0)
    assert member.classic_member_metadata is None
    assert member.encode(0) == data
    member.classic_member_metadata = kind.ClassicMemberMetadata(session_timeout_ms=7)
    assert member.encode(0) == data[:-4] + b"\1\0\7\1" + b"\0\0\0\7\1\0"
    assert kind.decode(member.encode(0), 0) == member


def test_a_repr_shows_what_is_set() -> None:
    assert repr(HeartbeatRequest(group_id="g")) == "HeartbeatRequest(group_id='g')"
    assert repr(fetch_response(memoryview(bytes(99)))).endswith("records=<99 bytes>)])])")


def test_a_repr_masks_secrets() -> None:
    request = SaslAuthenticateRequest(auth_bytes=b"\0user\0hunter2")
    upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
        name="alice", iterations=4096, salt=b"pepper", salted_password=b"hunter2"
    )
    text = repr([request, AlterUserScramCredentialsRequest(upsertions=[upsertion])])
    assert "hunter2" not in text
    assert "pepper" not in text
    assert "auth_bytes=<secret>" in text
    assert "alice" in text


def test_messages_can_be_copied_and_pickled() -> None:
    request = JoinGroupRequest(group_id="g", protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="range")])
    assert copy.deepcopy(request) == request
    assert pickle.loads(pickle.dumps(HeartbeatRequest(group_id="g"))) == HeartbeatRequest(group_id="g")


def test_topic_ids_are_uuids() -> None:
    topic = MetadataResponse.MetadataResponseTopic(name="t", topic_id=UUID(int=5))
    assert MetadataResponse.decode(MetadataResponse(topics=[topic]).encode(12), 12).topics[0].topic_id == UUID(int=5)


def test_versions_are_read_in_kafkas_notation() -> None:
    assert 3 in Versions.parse("3")
    assert 4 not in Versions.parse("3")
    assert 4 in Versions.parse("0-4")
    assert 900 in Versions.parse("4+")
    assert 0 not in Versions.parse("none")


def test_lookup_finds_messages_by_name() -> None:
    assert lookup("FetchRequest") is FetchRequest
    assert lookup("TopicRecord").api_key == 2
    assert lookup("ResponseHeader").max_version == 1
    assert FetchRequest.response_type is FetchResponse
    for name in ("FetchReply", "Fetch", "NoSuchRequest"):
        with pytest.raises(LookupError, match=name):
            lookup(name)


def test_importing_the_package_imports_no_messages() -> None:
    code = "import sys, kclient.protocol; print(sum('.messages' in name for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout == "0\n"
