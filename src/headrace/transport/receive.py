"""Receiving one partition: frames in, user code over their batches, a message back; driver and executor Python."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pyarrow as pa

from headrace.errors import HeadraceError, ScanEndedError, TransportError
from headrace.execute.failure import Failure
from headrace.execute.receiving import OfferedBatches, ReceivingTask, checked_message
from headrace.execute.stopping import StopFlag, StopRequested
from headrace.transport.frames import limit_stalls, send_error, send_message
from headrace.transport.protocol import ALIVE, ALIVE_SECONDS, MAX_MESSAGE_BYTES
from headrace.transport.received import ReceivedBatches, SenderGone, drop_frames
from headrace.transport.seal import Seals


def receive_partition(
    sock: socket.socket,
    nonce: int,
    task: ReceivingTask,
    partition: int,
    attempt: int,
    stop: StopFlag,
    seals: Seals | None = None,
) -> bool:
    """Run ``task`` over the frames that come, and answer with MESSAGE, or with ERROR where it raised or was stopped.

    MESSAGE is sent only after END was read and its totals were right. True: so it was, and nothing is left to be read.
    False: the connection is spent, and its peer has gone. Raises OSError when the peer is gone. With ``seals`` the peer
    is one that has to hear signs of life.
    """
    seals = seals or Seals(None, None)
    received = ReceivedBatches(sock, nonce, task.schema, seals.received)
    who = task.who(partition)
    batches = OfferedBatches(_named(received, f"partition {partition} of table {task.table!r}"), stop, who)
    message, failure = b"", None
    with _signs_of_life(sock, batches.reading) if seals.sent is not None else contextlib.nullcontext():
        try:
            with stop.user_code():
                message = checked_message(task.receive(partition, attempt, batches), MAX_MESSAGE_BYTES, who)
            batches.check()
        except StopRequested:
            assert stop.ending is not None, "only a request stops it"
            stopped = ScanEndedError(f"it was stopped before its end: {stop.ending}", stop.ending.reason)
            failure = task.failure(stopped, partition)
        except BaseException as error:  # user code may raise anything, SystemExit and KeyboardInterrupt too
            failure = task.failure(error, partition)
    if failure is not None:
        refuse(sock, failure, nonce, seals)
        return False
    limit_stalls(sock, 0)  # the next request may take any time
    send_message(sock, message, nonce, seals.sent)
    return True


def refuse(sock: socket.socket, failure: Failure, nonce: int, seals: Seals | None = None) -> None:
    """Tell a task that sends why nobody receives, and wait until it has gone. Raises OSError when it is gone."""
    send_error(sock, failure.to_json(), nonce, None if seals is None else seals.sent)
    drop_frames(sock)


def _named(received: ReceivedBatches, which: str) -> Iterator[pa.RecordBatch]:
    """The same batches, with errors that tell user code what happened."""
    try:
        yield from received
    except SenderGone as gone:
        told = gone.told.args[0] if isinstance(gone.told, HeadraceError) and gone.told.args else gone.told
        raise ScanEndedError(f"Spark's task broke off {which} before its end: {told or 'it was killed'}") from None
    except OSError as error:
        raise TransportError(f"the connection of Spark's task that sends {which} broke: {error}") from error


@contextlib.contextmanager
def _signs_of_life(sock: socket.socket, reading: threading.Lock) -> Iterator[None]:
    """Meanwhile a task on another host that waits while user code is busy is told that this side is here.

    Where the connection is read, nobody is kept waiting, and under TLS no other thread may use the socket.
    """
    over = threading.Event()

    def run() -> None:
        while not over.wait(ALIVE_SECONDS):
            if reading.acquire(blocking=False):
                try:
                    sock.sendall(ALIVE)
                except OSError:  # the task is gone: who serves it notices
                    return
                finally:
                    reading.release()

    thread = threading.Thread(target=run, name="headrace-alive", daemon=True)
    if sock.family != socket.AF_UNIX:
        thread.start()
    try:
        yield
    finally:
        over.set()
        if thread.ident is not None:
            thread.join()
