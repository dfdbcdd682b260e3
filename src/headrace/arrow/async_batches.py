"""Async sources read by code that is not async: an event loop on a thread of its own; driver and executor Python."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterable, AsyncIterator, Iterator
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

from headrace.forks import OwnProcess

_LOOK_UP_SECONDS = 0.05
"""A thread that waits inside of one C call cannot be stopped, so it looks up this often."""


@dataclass(frozen=True)
class _Ended:
    error: BaseException | None


class AsyncBatches(Iterator[Any]):
    """Iterates over ``source``, which is an async iterable, one item for each ``next``.

    The loop is its own: it starts with the first ``next`` and ends in ``close``. It also runs between two calls of
    ``next``, so tasks that the source has started go on. One task makes every step of the source, the clean-up
    included: task groups, timeouts and cancel scopes may span a yield. Not on the caller's thread, as that may have
    a loop of its own already, in a notebook for instance.

    One thread calls ``next`` and ``close``. What the source raises is raised by ``next`` as it is, a CancelledError
    too: only the end of the source is an end.
    """

    def __init__(self, source: AsyncIterable[Any]) -> None:
        self._source = source
        self._answers: SimpleQueue[Any] = SimpleQueue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._ended = False
        self._process = OwnProcess()
        # The rest belongs to the loop's thread.
        self._wanted = asyncio.Event()
        self._stepping: asyncio.Task[None] | None = None
        self._stopping = False

    def __next__(self) -> Any:
        if self._ended:
            raise StopIteration
        self._in_loop().call_soon_threadsafe(self._wanted.set)
        answer = self._answer()
        if not isinstance(answer, _Ended):
            return answer
        if isinstance(answer.error, StopIteration):  # raised from here it would be a clean end
            raise RuntimeError("the async source raised StopIteration") from answer.error
        if answer.error is not None:
            raise answer.error
        raise StopIteration

    def close(self) -> None:
        """End the source: what it waits for is cancelled, and its ``finally`` has run when this returns. Idempotent.

        Raises what that raises. Waits as long as it takes.
        """
        error: BaseException | None = None
        if not self._ended:
            self._in_loop().call_soon_threadsafe(self._stop)
            while not self._ended:
                answer = self._answer()
                error = answer.error if isinstance(answer, _Ended) else None
        if self._thread is not None:
            self._thread.join()
        if error is not None:
            raise error

    def _in_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        if self._thread is None:  # all of this may be cut short anywhere, and be called again by close
            thread = threading.Thread(target=self._run, args=(self._loop,), name="headrace-async", daemon=True)
            thread.start()
            self._thread = thread
        return self._loop

    def _answer(self) -> Any:
        while True:
            try:
                answer = self._answers.get(timeout=_LOOK_UP_SECONDS)
            except Empty:
                continue
            self._ended = isinstance(answer, _Ended)
            return answer

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                error = runner.run(self._produce())
        except BaseException as raised:  # of tasks that the source left behind: nobody may wait for this thread in vain
            error = raised
        self._answers.put(_Ended(error))

    def _stop(self) -> None:
        self._stopping = True
        self._wanted.set()  # also for a source that swallows its cancellation, and yields again
        if self._stepping is not None:
            self._stepping.cancel()

    async def _produce(self) -> BaseException | None:
        """Runs the source to its end or to ``_stop``; returns what it raised, if it was not stopped by that."""
        iterator: AsyncIterator[Any] | None = None
        error: BaseException | None = None
        try:
            await self._wanted.wait()
            iterator = None if self._stopping else aiter(self._source)
            while iterator is not None and not self._stopping:
                self._wanted.clear()
                self._stepping = asyncio.current_task()
                try:
                    batch = await anext(iterator)
                except StopAsyncIteration:
                    break
                finally:
                    self._stepping = None
                    self._process.end_child()  # it has this thread alone, and would wait forever
                self._answers.put(batch)
                await self._wanted.wait()
        except BaseException as raised:  # user code may raise anything; here it ends neither loop nor thread
            error = raised
        for opened in dict.fromkeys((iterator, self._source)):
            try:
                await _closed(opened)
            except BaseException as raised:
                error = error or raised
            finally:
                self._process.end_child()
        return None if self._stopping and error is not None and _is_stop(error) else error


async def _closed(opened: Any) -> None:
    close = getattr(opened, "aclose", None) or getattr(opened, "close", None)
    if callable(close):
        closing = close()
        if inspect.isawaitable(closing):
            await closing


def _is_stop(error: BaseException) -> bool:
    """A task group that is left because its generator is closed raises that as a group."""
    if isinstance(error, BaseExceptionGroup):
        return error.split((asyncio.CancelledError, GeneratorExit))[1] is None
    return isinstance(error, (asyncio.CancelledError, GeneratorExit))
