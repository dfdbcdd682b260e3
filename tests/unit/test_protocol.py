"""Python's half of the protocol against the golden bytes; Java's half is checked in test_connector.py. No Spark."""

from __future__ import annotations

import itertools
import json
import socket
from typing import Any

import pyarrow as pa
import pytest

from headrace.errors import TransportError
from headrace.transport import protocol
from headrace.transport.frames import FrameWriter, frame_pieces, read_frame, read_totals, send_message
from headrace.transport.protocol import FrameKind
from headrace.transport.seal import FrameSeal
from places import ROOT

GOLDEN = json.loads((ROOT / "connector" / "protocol" / "golden.json").read_text())
MESSAGES = {message["name"]: message for message in GOLDEN["messages"]}


def golden(name: str) -> tuple[dict[str, Any], bytes]:
    message = MESSAGES[name]
    fields = {**message["fields"], "nonce": int(message["fields"].get("nonce", "0"), 16)}
    return fields, bytes.fromhex(message["hex"])


def connected(data: bytes) -> socket.socket:
    """A connection on which ``data`` has come, and then its end."""
    ours, theirs = socket.socketpair()
    with theirs:
        theirs.sendall(data)
    return ours


def written(nonce: int) -> tuple[FrameWriter, socket.socket]:
    ours, theirs = socket.socketpair()
    return FrameWriter(theirs, pa.schema([]), nonce), ours


def plain(value: int | bytes) -> int | str:
    """As the golden file has it."""
    if isinstance(value, int):
        return value
    return value[0] if len(value) == 1 else value.decode()


def test_every_number_of_the_protocol_is_the_golden_one() -> None:
    constants = {name: value for name, value in vars(protocol).items() if name.isupper()}
    numbers = {name: plain(value) for name, value in constants.items() if isinstance(value, int | bytes)}
    assert numbers == GOLDEN["constants"]
    assert {kind.name: int(kind) for kind in FrameKind} == GOLDEN["kinds"]


@pytest.mark.parametrize("name", [name for name in MESSAGES if name.startswith("header")])
def test_frame_header_is_written_as_the_golden_bytes(name: str) -> None:
    fields, expected = golden(name)
    made = protocol.FRAME_HEADER.pack(
        fields["kind"],
        protocol.PROTOCOL_VERSION,
        fields["flags"],
        fields["first"],
        fields["second"],
        fields["nonce"],
    )
    assert made == expected
    with connected(expected) as sock, pytest.raises(TransportError, match="another request"):
        read_frame(sock, fields["nonce"] ^ 1)


def test_end_frame_is_written_and_read_as_the_golden_bytes() -> None:
    fields, expected = golden("frame END")
    writer, sock = written(fields["nonce"])
    writer._rows, writer._batches = fields["rows"], fields["batches"]
    with sock:
        writer.end()
        assert sock.recv(1000) == expected
    with connected(expected) as sock:
        frame = read_frame(sock, fields["nonce"])
    assert frame is not None
    assert frame.kind is FrameKind.END
    assert read_totals(frame) == (fields["rows"], fields["batches"])


def test_error_frame_is_written_and_read_as_the_golden_bytes() -> None:
    fields, expected = golden("frame ERROR")
    writer, sock = written(fields["nonce"])
    with sock:
        writer.error(fields["json"])
        assert sock.recv(1000) == expected
    with connected(expected) as sock:
        frame = read_frame(sock, fields["nonce"])
    assert frame is not None
    assert frame.kind is FrameKind.ERROR
    assert frame.message.to_pybytes().decode() == fields["json"]


@pytest.mark.parametrize("name", ["frame MESSAGE", "sealed message"])
def test_message_frame_is_written_and_read_as_the_golden_bytes(name: str) -> None:
    fields, expected = golden(name)
    seals = [FrameSeal(bytes.fromhex(fields["key"])) if "key" in fields else None for _ in range(2)]
    ours, theirs = socket.socketpair()
    with ours, theirs:
        send_message(theirs, fields["message"].encode(), fields["nonce"], seals[0])
        assert ours.recv(1000) == expected
    with connected(expected) as sock:
        frame = read_frame(sock, fields["nonce"], seals[1])
    assert frame is not None
    assert (frame.kind, frame.message.to_pybytes().decode()) == (FrameKind.MESSAGE, fields["message"])


def test_handshake_is_packed_as_the_golden_bytes() -> None:
    fields, challenge = golden("challenge")
    random = bytes.fromhex(fields["random"])
    assert protocol.CHALLENGE.pack(protocol.MAGIC, protocol.PROTOCOL_VERSION, random) == challenge
    fields, claim = golden("claim")
    ticket, secret = bytes.fromhex(fields["ticket"]), bytes.fromhex(fields["secret"])
    numbers = (fields["partition"], fields["attempt"], fields["task"], fields["execution"], fields["nonce"])
    unproven = protocol.CLAIM.pack(protocol.MAGIC, ticket, *numbers, b"")[: -protocol.PROOF_BYTES]
    assert unproven + protocol.proof(secret, challenge, unproven) == claim
    assert protocol.answer(secret, challenge, claim) == golden("answer")[1]


@pytest.mark.parametrize("name", ["request", "request to receive"])
def test_worker_request_is_packed_as_the_golden_bytes(name: str) -> None:
    fields, request = golden(name)
    facts, task = fields["facts"].encode(), bytes.fromhex(fields["task"])
    header = (protocol.TASK_MAGIC, protocol.PROTOCOL_VERSION, fields["nonce"], fields["partition"], fields["direction"])
    assert protocol.REQUEST.pack(*header, len(facts), len(task)) + facts + task == request


def test_golden_stream_is_read_whole() -> None:
    fields, stream = golden("stream")
    with connected(stream) as sock:
        frames = []
        while (frame := read_frame(sock, fields["nonce"])) is not None:
            frames.append(frame)
    assert [frame.kind for frame in frames] == [FrameKind.SCHEMA, FrameKind.BATCH, FrameKind.END]
    schema = pa.ipc.read_schema(frames[0].message)
    batch = pa.ipc.read_record_batch(frames[1].message, schema)
    assert [list(row.values()) for row in batch.to_pylist()] == fields["rows"]
    assert read_totals(frames[2]) == (batch.num_rows, 1)


def test_golden_nested_stream_is_read_whole() -> None:
    fields, stream = golden("nested stream")
    with connected(stream) as sock:
        frames = [read_frame(sock, fields["nonce"]) for _ in range(3)]
    schema, batch, end = frames
    assert schema is not None
    assert batch is not None
    assert end is not None
    rows = pa.ipc.read_record_batch(batch.message, pa.ipc.read_schema(schema.message))
    rows.validate(full=True)
    assert read_totals(end) == (fields["rows"], 1) == (rows.num_rows, 1)


def test_golden_stream_of_columns_as_they_are_is_what_the_writer_sends() -> None:
    fields, stream = golden("stream of columns as they are")
    with connected(stream) as sock:
        frames = []
        while (frame := read_frame(sock, fields["nonce"])) is not None:
            frames.append(frame)
    assert [frame.kind.name for frame in frames] == fields["kinds"]
    arrow = {FrameKind.SCHEMA, FrameKind.DICTIONARY, FrameKind.BATCH}
    batches: list[pa.RecordBatch] = []
    for start in [at for at, frame in enumerate(frames) if frame.kind is FrameKind.SCHEMA]:
        messages = itertools.takewhile(lambda frame: frame.kind in arrow - {FrameKind.SCHEMA}, frames[start + 1 :])
        part = b"".join(bytes(frame.message) for frame in [frames[start], *messages])
        batches.extend(pa.ipc.open_stream(part))
    assert [list(row.values()) for batch in batches for row in batch.to_pylist()] == fields["rows"]
    assert read_totals(frames[-1]) == (sum(batch.num_rows for batch in batches), len(batches))

    ours, theirs = socket.socketpair()
    with ours, theirs:
        writer = FrameWriter(theirs, pa.schema([("d", pa.string()), ("v", pa.string())]), fields["nonce"])
        writer.schema()
        for batch in batches:
            writer.batch(batch)
        writer.end()
        assert [read_frame(ours, fields["nonce"]) for _ in frames] == frames


@pytest.mark.parametrize("kind", [0, 9, 255])
def test_frame_of_an_unknown_kind_is_a_transport_error(kind: int) -> None:
    header = protocol.FRAME_HEADER.pack(kind, protocol.PROTOCOL_VERSION, 0, 0, 0, 1)
    with connected(header) as sock, pytest.raises(TransportError, match=f"not a Headrace frame .kind {kind},"):
        read_frame(sock, 1)


@pytest.mark.parametrize(
    ("first", "second"), [(protocol.MAX_FIRST_BYTES + 1, 0), (0, protocol.MAX_SECOND_BYTES + 1), (0, 2**63)]
)
def test_frame_beyond_the_limits_is_a_transport_error(first: int, second: int) -> None:
    header = protocol.FRAME_HEADER.pack(FrameKind.BATCH, protocol.PROTOCOL_VERSION, 0, first, second, 1)
    with connected(header) as sock, pytest.raises(TransportError, match="not a Headrace frame"):
        read_frame(sock, 1)


@pytest.mark.parametrize("name", ["tag key HDRE", "tag key HDRX"])
def test_tag_key_is_made_as_the_golden_bytes(name: str) -> None:
    fields, expected = golden(name)
    assert plain(protocol.FROM_ENDPOINT) == "HDRE"
    parts = (bytes.fromhex(fields[part]) for part in ("challenge", "claim"))
    assert protocol.tag_key(bytes.fromhex(fields["secret"]), fields["direction"].encode(), *parts) == expected


def test_sealed_frames_are_read_and_written_as_the_golden_bytes() -> None:
    fields, expected = golden("sealed stream")
    key = bytes.fromhex(fields["key"])
    seal = FrameSeal(key)
    with connected(expected) as sock:
        schema, batch, end = (read_frame(sock, fields["nonce"], seal) for _ in range(3))
        assert read_frame(sock, fields["nonce"], seal) is None
    assert schema is not None
    assert batch is not None
    assert end is not None
    rows = pa.ipc.read_record_batch(batch.message, pa.ipc.read_schema(schema.message))
    assert read_totals(end) == (rows.num_rows, 1)
    assert [list(row.values()) for row in rows.to_pylist()] == fields["rows"]

    ours, theirs = socket.socketpair()
    with ours, theirs:
        writer = FrameWriter(theirs, rows.schema, fields["nonce"], FrameSeal(key))
        writer.schema()
        writer.batch(rows)
        writer.end()
        assert ours.recv(10_000) == expected


@pytest.mark.parametrize("name", ["sealed questions", "sealed answers"])
def test_sealed_planning_is_read_and_written_as_the_golden_bytes(name: str) -> None:
    fields, expected = golden(name)
    key = bytes.fromhex(fields["key"])
    if name == "sealed questions":
        kind, first, second = FrameKind.QUESTION, fields["operation"] + "\n", fields["question"]
    else:
        kind, first, second = FrameKind.ANSWER, "", fields["answer"]
    seal = FrameSeal(key)
    pieces = [frame_pieces(kind, first.encode(), [second.encode()], fields["nonce"], seal) for _ in range(2)]
    assert b"".join(pieces[0] + pieces[1]) == expected
    seal = FrameSeal(key)
    with connected(expected) as sock:
        for frame in (read_frame(sock, fields["nonce"], seal) for _ in range(2)):
            assert frame is not None
            assert (frame.kind, frame.message.to_pybytes().decode()) == (kind, first + second)
