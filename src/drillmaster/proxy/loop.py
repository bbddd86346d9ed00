"""The proxy's event loop: asyncio's own, whose readers are called as soon as the poll names them.

asyncio makes a handle ready for each event, puts it into a queue, and runs the queue in a context of its own; with two
short events a request that is a fifth of all the work. Here `select` calls the readers itself, and asyncio is told of the
rest: writers, its own wake-up pipe, timers, tasks, signals.

1. A reader runs inside `select`: what it schedules runs in the same round, after all readers of the round.
2. What a reader raises is given to the loop's exception handler. The events behind it come again with the next poll.
3. A reader may close any descriptor, and another may be opened under the same number within a round. A reader that is
   called for its predecessor's event reads nothing, so readers bear that; a writer would take itself for connected, so an
   event for asyncio counts only while the registration stands that it was reported for.
4. What readers have to write soon is written together, after every `BATCH_READERS` of them (`wire.Batch`): no peer waits
   for longer than that many take.
"""

import asyncio
import contextlib
import math
import select
import selectors
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVarTuple, Unpack

from drillmaster.wire import Batch

__all__ = ["BATCH_READERS", "make_loop"]

BATCH_READERS = 16

_Args = TypeVarTuple("_Args")
_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class _Poll(selectors.BaseSelector):
    """epoll for two: the readers that are called here, and what asyncio has registered."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._calls: dict[int, Callable[[], object]] = {}
        self._keys: dict[int, selectors.SelectorKey] = {}
        self.failed: Callable[[BaseException, Callable[[], object]], None] | None = None
        self.batch = Batch()

    def call(self, fd: int, reader: Callable[[], object]) -> None:
        """Call `reader` whenever `fd` can be read, or is broken."""
        known = fd in self._calls or fd in self._keys
        self._calls[fd] = reader
        self._arm(fd, known)

    def uncall(self, fd: int) -> bool:
        if self._calls.pop(fd, None) is None:
            return False
        self._arm(fd, True)
        return True

    def _arm(self, fd: int, known: bool) -> None:
        key = self._keys.get(fd)
        wanted = select.EPOLLIN if fd in self._calls else 0
        if key is not None:
            wanted |= (select.EPOLLIN if key.events & _READ else 0) | (select.EPOLLOUT if key.events & _WRITE else 0)
        if not wanted:
            with contextlib.suppress(OSError):  # closed already, which takes a descriptor out by itself
                self._epoll.unregister(fd)
        elif known:
            self._epoll.modify(fd, wanted)
        else:
            self._epoll.register(fd, wanted)

    # selectors.BaseSelector

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        fd = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        if fd in self._keys:
            raise KeyError(f"{fileobj!r} is registered already")
        known = fd in self._calls
        key = self._keys[fd] = selectors.SelectorKey(fileobj, fd, events, data)
        self._arm(fd, known)
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        key = self._keys.pop(fileobj if isinstance(fileobj, int) else fileobj.fileno())
        self._arm(key.fd, True)
        return key

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        old = self._keys[fileobj if isinstance(fileobj, int) else fileobj.fileno()]
        key = self._keys[old.fd] = old._replace(events=events, data=data)
        if events != old.events:
            self._arm(key.fd, True)
        return key

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._keys

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        # The kernel counts in ms: rounded up, or the loop would turn idle until its timer is due.
        wait_s = -1.0 if timeout is None else math.ceil(timeout * 1e3) * 1e-3 if timeout > 0 else 0.0
        calls, keys = self._calls, self._keys
        try:
            events = self._epoll.poll(wait_s, len(calls) + len(keys) or 1)
        except InterruptedError:
            return []
        others = [(keys[fd], event) for fd, event in events if fd in keys]
        call: Callable[[], object] | None = None
        batch = self.batch
        try:
            for at in range(0, len(events), BATCH_READERS):
                batch.open = len(events) > 1
                for fd, event in events[at : at + BATCH_READERS]:
                    call = calls.get(fd)
                    if call is not None and event != select.EPOLLOUT:
                        call()
                batch.write()
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            if self.failed is None or call is None:
                raise
            self.failed(error, call)
        finally:
            batch.write()
        if not others:
            return []
        ready = []
        for key, event in others:
            if keys.get(key.fd) is key:
                told = (_WRITE if event & ~select.EPOLLIN else 0) | (_READ if event & ~select.EPOLLOUT else 0)
                ready.append((key, told & key.events))
        return ready

    def close(self) -> None:
        self._calls.clear()
        self._keys.clear()
        self._epoll.close()


class _Loop(asyncio.SelectorEventLoop):
    """asyncio's loop on such a poll."""

    def __init__(self) -> None:
        self._poll = _Poll()
        self.batch = self._poll.batch
        super().__init__(self._poll)
        self._poll.failed = self._reader_failed

    def add_reader(self, fd: Any, callback: Callable[[Unpack[_Args]], Any], *args: *_Args) -> None:
        """Call `callback` at once when `fd` can be read."""
        # Without arguments, as wires give it, there is nothing to bind, and one call less.
        call: Callable[[], Any] = partial(callback, *args) if args else callback
        self._poll.call(fd if isinstance(fd, int) else fd.fileno(), call)

    def remove_reader(self, fd: Any) -> bool:
        return self._poll.uncall(fd if isinstance(fd, int) else fd.fileno()) or super().remove_reader(fd)

    def _reader_failed(self, error: BaseException, reader: Callable[[], object]) -> None:
        self.call_exception_handler({"message": f"Exception in reader {reader!r}", "exception": error})


def make_loop() -> asyncio.AbstractEventLoop:
    """The loop to run a proxy in; where there is no epoll, asyncio's usual one."""
    return _Loop() if hasattr(select, "epoll") else asyncio.new_event_loop()
