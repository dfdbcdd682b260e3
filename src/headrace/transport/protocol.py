"""The protocol: every number that both ends of a connection must agree on; driver and executor Python.

Java's half is ``org.headrace.spark.transport.Protocol``. Both are tested against ``connector/protocol/golden.json``:
the numbers by their names, the messages byte by byte. What the messages mean is told in ``docs/protocol.md``.
"""

from __future__ import annotations

import enum
import hmac
import struct

PROTOCOL_VERSION = 5  # of frames, handshakes and worker requests
PLANNER_VERSION = 2  # of what the driver's JVM asks while planning, over Py4J or in QUESTION frames


# Frames, in both directions


class FrameKind(enum.IntEnum):
    """What a frame carries. There are no others: an unknown kind is a TransportError."""

    SCHEMA = 1
    BATCH = 2
    END = 3
    ERROR = 4
    DICTIONARY = 5
    QUESTION = 6  # of a JVM that plans, in another process than the one that Py4J leads to
    ANSWER = 7


FRAME_HEADER = struct.Struct("<BBHIQQ")  # kind, version, flags, length of the first part, of the second, nonce
FRAME_HEADER_BYTES = FRAME_HEADER.size
TOTALS = struct.Struct("<QQ")  # END's first part: rows and batches that were sent
TOTALS_BYTES = TOTALS.size
TOLD_WHEN_READ = 1  # a flag of SCHEMA: the reader is to send ASKING whenever it begins to wait for a frame
MAX_FIRST_BYTES = 16 << 20  # IPC metadata, totals or an error as JSON
MAX_SECOND_BYTES = 2 << 30  # the body of a batch; only a single row can come near it, because of the next number
SPLIT_BYTES = 64 << 20  # a batch with a larger body is sent as several
STALL_SECONDS = 60  # a frame that has begun and of which no byte comes for so long never will

# Single bytes beside the frames

ASKING = b"\x00"  # reader to producer: I have read everything
LEAVING = b"\x01"  # reader to producer: I read no more; the reason follows, as UTF-8
MAX_REASON_BYTES = 1024
RECEIPT = b"\x01"  # inbox to task: all of your partition has arrived
ALIVE = b"\x00"  # inbox to task, over a network: I cannot take more yet, but I am here
ALIVE_SECONDS = 5  # how often that is said
SILENCE_SECONDS = 25  # a task that can send nothing and hears nothing for so long gives up
STOP = b"\x02"  # JVM to worker: stop early

# The endpoint: it sends a challenge, the executor answers with a claim, the endpoint with a proof of its own

MAGIC = b"HDRC"
TICKET_BYTES = 32
CHALLENGE_BYTES = 32
PROOF_BYTES = 32
CHALLENGE = struct.Struct(f"<4sI{CHALLENGE_BYTES}s")  # magic, version, random bytes
CLAIM = struct.Struct(f"<4s{TICKET_BYTES}sIIqQ{PROOF_BYTES}s")  # magic, ticket, partition, attempt, execution, nonce
NO_EXECUTION = -1
HANDSHAKE_SECONDS = 5  # for all of it, as the endpoint counts
CONNECT_SECONDS = 10  # to connect, and again until the challenge has come, as the executor counts

# A worker: the JVM sends a request, and STOP if it needs no more

TASK_MAGIC = b"HDRT"
REQUEST = struct.Struct("<4sIQIII")  # magic, version, nonce, partition, lengths of facts and task, which follow


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
