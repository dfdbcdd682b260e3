"""What one Python pickles for another, which may be of another version; driver and executor Python."""

from __future__ import annotations

import pickle
import sys
import zlib
from collections.abc import Callable

PYTHON_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
_QUICK = 1  # zlib's level: plans of many files repeat themselves so much that a better one gains little


def payload_of(pickled: bytes) -> bytes:
    """``pickled`` to be sent, with what tells whether it can be read and where its modules are found.

    Packed, as all of it has to pass through Py4J, whose text takes a quarter of a second for each MB.
    """
    return pickle.dumps((PYTHON_VERSION, sys.path, zlib.compress(pickled, _QUICK)))


def open_payload(payload: bytes, mismatch: Callable[[str], Exception]) -> bytes:
    """What was pickled; its modules can be found from now on. Raises ``mismatch(version)`` if another Python did it."""
    version, search_path, packed = pickle.loads(payload)  # plain values, which any Python reads
    if version != PYTHON_VERSION:
        raise mismatch(version)
    sys.path.extend(entry for entry in search_path if entry not in sys.path)
    return zlib.decompress(packed)
