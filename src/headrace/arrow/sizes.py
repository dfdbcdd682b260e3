"""How large batches are made, merged and kept, each size once; driver and executor Python.

Sizes that both ends of a connection must agree on are in ``headrace.transport.protocol``.
"""

from __future__ import annotations

BATCH_ROWS = 64 * 1024
"""Rows of a batch that Headrace cuts or merges itself: the size that suits Spark best."""
LARGE_ROWS = 8 * 1024
"""A batch of so many rows is sent alone: to merge it costs more than a frame of its own."""
LARGE_BYTES = 256 * 1024
"""A batch of so many bytes is sent alone, too."""
MERGED_BYTES = 4 << 20
"""Small batches that come faster than they can be sent wait until they have so many bytes; then their source waits."""
PUSHED_BYTES = 8 << 20
"""What was written to a sink is sent in batches of so many bytes, whatever size was written."""
PACKED_ROWS = 256
"""A written batch of at most so many rows may wait in a pack: its objects cost more than its rows."""
PACKED_BYTES = 64 * 1024
"""A written batch of more bytes than these waits by itself."""
COPIED_BYTES = 16 * 1024
"""A written batch of at most so many bytes is copied whole: that costs half of a copy without what a slice hides."""
COUNTED_ROWS = 1 << 20
"""Rows of a batch without columns: they take no memory."""
FIRST_PYTHON_ROWS, MOST_PYTHON_ROWS = 256, 16 * 1024
"""Rows that arrive as Python objects: the first batch comes soon, later ones grow to what is still quick to convert."""
