"""One task's frames, read into the inbox and confirmed; driver Python, a thread each."""

from __future__ import annotations

import socket
from time import monotonic
from typing import TYPE_CHECKING

from headrace.errors import HeadraceError, StreamError, TransportError
from headrace.transport.frames import send_message
from headrace.transport.protocol import ALIVE, ALIVE_SECONDS
from headrace.transport.received import ReceivedBatches, SenderGone, drop_frames
from headrace.transport.seal import Seals

if TYPE_CHECKING:
    from headrace.results.inbox import ResultInbox

_CANCEL_GRACE_SECONDS = 5.0  # how long a task may take to be cancelled before its connection is broken


class PartitionReceiver:
    """A PartitionServer that reads one task's frames into the inbox."""

    def __init__(self, inbox: ResultInbox, partition: int) -> None:
        self.partition = partition
        self._inbox = inbox
        self._sock: socket.socket | None = None
        self._signed_at = 0.0

    def give_sign_of_life(self) -> None:
        """Tell a task on another host that waits to send more; seldom enough that this never blocks."""
        sock = self._sock
        if sock is not None and sock.family != socket.AF_UNIX and monotonic() - self._signed_at >= ALIVE_SECONDS:
            self._signed_at = monotonic()
            sock.sendall(ALIVE)

    def serve(self, sock: socket.socket, nonce: int, seals: Seals) -> None:
        """A connection that ends before END is a task that failed: Spark tells, and may run it again."""
        why: HeadraceError | str = ""
        self._sock = sock
        try:
            for batch in ReceivedBatches(sock, nonce, self._inbox.schema, seals.received):
                self._inbox.put(self, batch, batch.get_total_buffer_size())
            self._inbox.end(self)
            send_message(sock, b"", nonce, seals.sent)  # without it the task, and so the query, is not over
        except SenderGone as gone:
            why = gone.told
        except StreamError:
            if self._inbox.failed:  # a task whose connection broke before it is cancelled would be logged as an error
                drop_frames(sock, _CANCEL_GRACE_SECONDS)
            # else nobody wants it any more, and the task notices when the connection is closed
        except OSError:  # the task is gone
            raise
        except Exception as error:
            why_not = str(error) or type(error).__name__
            self._inbox.fail(TransportError(f"partition {self.partition} of the result was damaged: {why_not}"))
        finally:
            self._inbox.left(self, why)

    def stop(self, reason: str) -> None: ...
