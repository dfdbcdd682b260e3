"""What one Python pickles for another, which may be of another version; driver and executor Python."""

from __future__ import annotations

import pickle
import sys
import zlib
from collections.abc import Callable

PYTHON_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
_QUICK = 1  # zlib's level: plans of many files repeat themselves so much that a better one gains little


def payload_of(pickled: bytes) -> bytes:
    """``pickled``, compressed, with the version of this Python and the search path of its modules.

    All of it passes through the driver's JVM as text, and goes to each executor.
    """
    return pickle.dumps((PYTHON_VERSION, sys.path, zlib.compress(pickled, _QUICK)))


def open_payload(payload: bytes, mismatch: Callable[[str], Exception]) -> bytes:
    """The pickled bytes; their modules are found from now on. Raises ``mismatch(version)`` of another Python."""
    version, search_path, packed = pickle.loads(payload)  # plain values, which any Python reads
    if version != PYTHON_VERSION:
        raise mismatch(version)
    sys.path.extend(entry for entry in search_path if entry not in sys.path)
    return zlib.decompress(packed)
