"""The protocol: every number that both ends of a connection must agree on; driver and executor Python.

Java's half is ``org.headrace.spark.transport.Protocol``. Both are tested against ``connector/protocol/golden.json``:
the numbers by their names, the messages byte by byte. What the messages mean is told in ``docs/protocol.md``.
"""

from __future__ import annotations

import enum
import hmac
import struct

