"""The protocol: every number that both ends of a connection must agree on; driver and executor Python.

Java's half is ``org.headrace.spark.transport.Protocol``. Both are tested against ``connector/protocol/golden.json``:
the numbers by their names, the messages byte by byte. What the messages mean is told in ``docs/protocol.md``.
"""

from __future__ import annotations

import enum
import hmac
import struct

PROTOCOL_VERSION = 6  # of frames, handshakes and worker requests
PLANNER_VERSION = 4  # of what the driver's JVM asks while planning, in QUESTION frames


# Frames, in both directions


class FrameKind(enum.IntEnum):
    """What a frame carries. There are no others: an unknown kind is a TransportError."""

    SCHEMA = 1
    BATCH = 2
    END = 3
    ERROR = 4
    DICTIONARY = 5
    QUESTION = 6  # of the driver's JVM, which plans
    ANSWER = 7
    MESSAGE = 8  # after END, from who received the stream: what its code made of it; empty for a result


FRAME_HEADER = struct.Struct("<BBHIQQ")  # kind, version, flags, length of the first part, of the second, nonce
FRAME_HEADER_BYTES = FRAME_HEADER.size
TOTALS = struct.Struct("<QQ")  # END's first part: rows and batches that were sent
TOTALS_BYTES = TOTALS.size
ROWS_READ = struct.Struct("<Q")  # behind them where Headrace works on the rows of a source: how many these were
TOLD_WHEN_READ = 1  # a flag of SCHEMA: the reader is to send ASKING whenever it begins to wait for a frame
MAX_FIRST_BYTES = 16 << 20  # IPC metadata, totals or an error as JSON
MAX_MESSAGE_BYTES = 1 << 20  # MESSAGE's first part
MAX_SECOND_BYTES = 2 << 30  # the body of a batch; only a single row can come near it, because of the next number
SPLIT_BYTES = 64 << 20  # a batch with a larger body is sent as several
STALL_SECONDS = 60  # a frame that has begun and of which no byte comes for so long never will

# Single bytes beside the frames

ASKING = b"\x00"  # reader to producer: I have read everything
LEAVING = b"\x01"  # reader to producer: I read no more; the reason follows, as UTF-8
MAX_REASON_BYTES = 1024
ALIVE = b"\x00"  # endpoint to a task that sends, over a network: I cannot take more yet, but I am here
ALIVE_SECONDS = 5  # how often that is said
SILENCE_SECONDS = 25  # a task that can send nothing and hears nothing for so long gives up
STOP = b"\x02"  # JVM to a worker that sends: stop early

# The endpoint: it sends a challenge, the executor answers with a claim, the endpoint with a proof of its own

MAGIC = b"HDRC"
TICKET_BYTES = 32
CHALLENGE_BYTES = 32
PROOF_BYTES = 32
CHALLENGE = struct.Struct(f"<4sI{CHALLENGE_BYTES}s")  # magic, version, random bytes
CLAIM = struct.Struct(
    f"<4s{TICKET_BYTES}sIIqqQ{PROOF_BYTES}s"
)  # magic, ticket, partition, attempt, Spark's id of the task, execution, nonce, proof
NO_EXECUTION = -1
HANDSHAKE_SECONDS = 5  # for all of it, as the endpoint counts
CONNECT_SECONDS = 10  # to connect, and again until the challenge has come, as the executor counts

# A worker: the JVM sends a request, and STOP if it needs no more

TASK_MAGIC = b"HDRT"
REQUEST = struct.Struct(
    "<4sIQIIII"
)  # magic, version, nonce, partition, direction, lengths of facts and task, which follow
SENDS = 0  # the direction of a worker that answers with a stream
RECEIVES = 1  # of one that is sent a stream, and answers with MESSAGE


# Tags, of frames on the endpoint's connections

TAG_BYTES = 16  # behind a frame's first part, and behind the second one of QUESTION and ANSWER
SEQUENCE = struct.Struct("<Q")  # which tag of its direction it is, from 0
FROM_ENDPOINT = b"HDRE"  # with what the key of that direction is made
TO_ENDPOINT = b"HDRX"


def proof(secret: bytes, challenge: bytes, claim: bytes) -> bytes:
    """The last part of a claim: shows that its sender knows ``secret``, for this challenge and this claim alone."""
    return hmac.digest(secret, challenge + claim, "sha256")


def answer(secret: bytes, challenge: bytes, claim: bytes) -> bytes:
    """What the endpoint sends before anything else to whoever made that claim: it knows ``secret`` too."""
    return hmac.digest(secret, claim + challenge, "sha256")


def tag_key(secret: bytes, direction: bytes, challenge: bytes, claim: bytes) -> bytes:
    """The key for the tags of one direction of the connection on which that challenge got that claim."""
    return hmac.digest(secret, direction + challenge + claim, "sha256")
