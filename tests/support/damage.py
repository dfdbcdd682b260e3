"""Damaged streams of frames, each made from a seed, and what Python's end of the transport makes of them."""

from __future__ import annotations

import random
import socket
import struct

from headrace.errors import HeadraceError
from headrace.results.inbox import ResultInbox
from headrace.transport.claims import Claim
from raw_frames import NONCE, NUMBERS, UNSEALED

_INTERESTING = (0, 1, 0xFFFFFFFF, 0x7FFFFFFF, 0x80000000, 255, 4096, 0x7FFFFF00)


def damaged(whole: bytes, seed: int) -> bytes:
    """A stream with a few bytes changed, left out or put in."""
    rng = random.Random(seed)
    data = bytearray(whole)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data))
        action = rng.randrange(6)
        if action == 0:
            data[at] = rng.randrange(256)
        elif action == 1:
            data[at] ^= 1 << rng.randrange(8)
        elif action == 2 and len(data) > 40:
            del data[at : at + rng.randint(1, 40)]
        elif action == 3:
            data[at:at] = rng.randbytes(rng.randint(1, 40))
        else:
            at = at if action == 4 else at // 4 * 4
            data[at : at + 4] = struct.pack("<I", rng.choice((*_INTERESTING, rng.getrandbits(32))))
    return bytes(data)


def is_refused(stream: bytes) -> bool:
    """Lets an inbox receive ``stream`` and reads all that it hands out, every value of it.

    True if it was refused by name; False if it was taken for a whole result. Any other end raises.
    """
    inbox = ResultInbox(NUMBERS)
    inbox.announce(1)
    receiver = inbox.open(Claim(partition=0, attempt=0, execution=-1, nonce=NONCE))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(stream)
        theirs.shutdown(socket.SHUT_WR)
        receiver.serve(ours, NONCE, UNSEALED)
    inbox.finish()
    try:
        while (batch := inbox.take(timeout_s=5)) is not None:
            for column in batch.columns:
                column.validate()
                [value.as_buffer() if hasattr(value, "as_buffer") else value.as_py() for value in column]
    except HeadraceError as error:
        assert str(error)
        return True
    finally:
        inbox.close()
    return False
