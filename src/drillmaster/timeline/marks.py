"""What a worker writes: `mark`, in its request path, and so with nothing in it that can hurt a request.

1. No DRILL_LOG, no drill: `mark` looks and returns. The variable is read at each call.
2. Nothing is raised and nobody is waited for: no lock is held over a call to the system that another thread, a signal
   handler or a forked child would wait for. Trouble is said once per kind on stderr.
3. One `write` of the caller's own. After one that took more than 50 ms the next lines go to a queue of 10,000 and a
   thread, until it has caught up. What finds no room there, or no disk, is counted, and the count is written
   (`mark_losses`) as soon as a line can be written again, and at exit.
4. `t` and `event` are the clock's and the caller's. A field of that name is kept as `t_` or `event_`.
5. A value that JSON has no word for is written as what is nearest: NaN as null, the rest as its repr. `mark_notes` on
   the line says so.
6. The descriptor is this process's only as long as it is the file that was opened: a worker that closes all descriptors
   when it becomes a daemon, and opens a socket, must not find our lines in it.
"""

import _thread
import atexit
import errno
import fcntl
import operator
import os
import sys
from collections.abc import Callable
from enum import Enum
from queue import Empty, SimpleQueue
from threading import RLock
from time import monotonic_ns, sleep, time_ns
from typing import Any, Never

from drillmaster.timeline.line import Stamps, compose, encode
from drillmaster.timeline.opening import complaint, open_append

__all__ = ["Marks", "mark"]

STALL_NS = 50_000_000
CHECK_NS = 50_000_000
"""How long a renamed or replaced file may get lines of ours, at most."""
QUEUE_LINES = 10_000
AT_EXIT_S = 1.0
_HIGH_FD = 200  # where few workers ever open one, so that ours is not soon another's after a blanket close

_environ = os.environb


def mark(event: str, /, *stray: Never, **fields: object) -> None:
    """Write one event to the drill's timeline, if there is a drill: `mark("fallback_engaged", id=request_id)`.

    Never raises and never changes what the caller does. Costs a look into the environment when DRILL_LOG is not set, and
    one `write` of at most 4 kB when it is. The names of events and fields are in docs/reference/timeline.md.
    """
    path = _environ.get(b"DRILL_LOG")
    if path:
        try:
            _marks.take(path, event, stray, fields)
        except Exception as error:  # noqa: BLE001 - whatever it is, the user's request is not where it may end
            _marks.lose("unexpected", f"a line was lost: {type(error).__name__}")


class _Open:
    """The file behind the descriptor."""

    __slots__ = ("checked_ns", "fd", "file", "name", "path")

    def __init__(self, name: bytes, path: bytes, fd: int, file: tuple[int, int], checked_ns: int) -> None:
        self.name = name  # as DRILL_LOG has it
        self.path = path  # the same, absolute since it was first seen: a chdir makes no second file
        self.fd = fd
        self.file = file
        self.checked_ns = checked_ns


class Marks:
    """All that this process knows about its timeline. `write` is the system's, or a test's slow or full disk."""

    def __init__(self, write: Callable[[int, bytes], int] = os.write) -> None:
        self._system_write = write
        self._stamps = Stamps()
        self._open: _Open | None = None
        self._name = b""  # DRILL_LOG, as it was last seen
        self._hooked = False
        self._said: set[str] = set()
        self._fresh()

    def _fresh(self) -> None:
        """Begin anew in a forked child: the queue, its thread and the losses are the parent's."""
        self._opening = RLock()
        self._counting = RLock()
        self._queue: SimpleQueue[tuple[bytes, bytes]] = SimpleQueue()
        self._stalled = False
        self._draining = False
        self._busy = False
        self._ending = False
        self._lost = 0
        if self._open is not None:
            self._open.checked_ns = 0

    def take(self, name: bytes, event: str, stray: tuple[object, ...], fields: dict[str, Any]) -> None:
        opening = b"\n" + self._stamps.opening(time_ns())
        plain = type(event) is str and event and not stray and "t" not in fields and "event" not in fields
        if plain:
            for value in fields.values():
                kind = type(value)
                if kind is not str and kind is not int and kind is not bool and value is not None:
                    if kind is float and value - value == 0:
                        continue
                    plain = False
                    break
        line = None
        if plain:
            try:
                line = compose(opening + encode(event), fields)
            except (UnicodeError, ValueError):  # half a surrogate pair, an integer of thousands of digits
                line = None
        if line is None:
            event, fields = self._plain(event, stray, fields)
            line = compose(opening + encode(event), fields)
        if self._stalled and not self._ending:
            self._enqueue(name, line)
            return
        before_ns = monotonic_ns()
        self._put(name, line, before_ns)
        if monotonic_ns() - before_ns > STALL_NS:
            self._stalled = True

    # -- writing --

    def _put(self, name: bytes, line: bytes, now_ns: int) -> None:
        self._name = name
        opened = self._open
        try:
            if opened is None or opened.name != name or now_ns - opened.checked_ns > CHECK_NS:
                if self._opening.acquire(blocking=False):
                    try:
                        opened = self._look(name, now_ns)
                    finally:
                        self._opening.release()
                elif opened is None or opened.name != name:
                    # Another thread is at it, and nobody waits here: this one line goes its own way.
                    opened = None
            if opened is None:
                fd = open_append(name)
                try:
                    self._write(fd, line)
                finally:
                    os.close(fd)
                return
            if self._lost:
                self._confess(opened.fd)
            try:
                self._write(opened.fd, line)
            except OSError as error:
                if error.errno != errno.EBADF:
                    raise
                opened.checked_ns = 0  # somebody closed all descriptors; ours is not at fault, and opens again
                self._write(self._look(name, now_ns).fd, line)
        except OSError as error:
            found, remedy = complaint(error)
            self.lose(found, f"lines are lost: DRILL_LOG={os.fsdecode(name)}: {found}; {remedy}")

    def _write(self, fd: int, line: bytes) -> None:
        if self._system_write(fd, line) != len(line) and self._system_write(fd, line) != len(line):
            # A part is on the disk and is torn. The line begins with a newline, so the second try stands by itself.
            raise OSError(errno.ENOSPC, "No space left on device")

    def _look(self, name: bytes, now_ns: int) -> _Open:
        """Look whether the open file is still the one that the path names, and open that. Raises OSError."""
        old = self._open
        known = old is not None and old.name == name
        path = old.path if old is not None and known else os.path.abspath(name)  # noqa: PTH100 - bytes, and no link is followed
        ours = old is not None and _identity(old.fd) == old.file
        if old is not None and ours and path == old.path:
            try:
                there = os.stat(path, follow_symlinks=False)  # noqa: PTH116 - a Path costs more than the call
                same = (there.st_dev, there.st_ino) == old.file
            except FileNotFoundError:
                same = False
            if same:
                old.checked_ns = now_ns
                return old
        new_fd = open_append(path)
        try:
            file = _identity(new_fd)
            assert file is not None
            if old is not None and ours:
                # In place, atomically: another thread may be about to write to the old number, which is never free.
                os.dup2(new_fd, old.fd, inheritable=False)
                fd = old.fd
            else:
                try:
                    fd = fcntl.fcntl(new_fd, fcntl.F_DUPFD_CLOEXEC, _HIGH_FD)
                except OSError:  # a small `ulimit -n`
                    fd = os.dup(new_fd)
        finally:
            os.close(new_fd)
        self._hook()
        self._open = found = _Open(path=path, name=name, fd=fd, file=file, checked_ns=now_ns)
        return found

    def _hook(self) -> None:
        """Be told of forks and of the end, from the first line or loss on: importing this module sets up nothing."""
        if not self._hooked:
            self._hooked = True
            os.register_at_fork(after_in_child=self._fresh)
            atexit.register(self._at_exit)

    # -- losses --

    def lose(self, kind: str, text: str, lines: int = 1) -> None:
        with self._counting:
            self._lost += lines
        self._hook()
        self.say(kind, text)

    def _confess(self, fd: int) -> None:
        with self._counting:
            lost, self._lost = self._lost, 0
        line = b"\n" + self._stamps.opening(time_ns()) + b'"mark_losses","lost":%d,"pid":%d}\n' % (lost, os.getpid())
        try:
            wrote = self._system_write(fd, line)
        except OSError:
            wrote = 0
        if wrote != len(line):
            with self._counting:
                self._lost += lost

    def say(self, kind: str, text: str) -> None:
        """Say it on stderr, once per kind; a worker without stderr goes without."""
        if kind in self._said:
            return
        self._said.add(kind)
        try:
            sys.stderr.write(f"drillmaster.mark: {text}\n")
        except Exception:  # noqa: BLE001 - closed, None, a broken pipe, re-entered from a signal: there is nobody to tell
            self._said.add("stderr")

    # -- after a stall --

    def _enqueue(self, name: bytes, line: bytes) -> None:
        if self._queue.qsize() >= QUEUE_LINES:
            self.lose("stalled", "the timeline's disk is slower than its lines; some are lost and counted")
            return
        self._queue.put((name, line))
        # After the put: a thread that ends looks into the queue once more after it has said that it ends.
        if not self._draining:
            self._draining = True
            try:
                _thread.start_new_thread(self._drain, ())
            except RuntimeError:  # no thread to be had: the caller waits for the disk after all
                self._draining = False
                self._stalled = False
                while not self._queue.empty():
                    self._put(*self._queue.get(), monotonic_ns())

    def _drain(self) -> None:
        queue = self._queue  # a forked child has another
        while True:
            name, line = queue.get()
            before_ns = monotonic_ns()
            self._busy = True
            try:
                self._put(name, line, before_ns)
            except Exception as error:  # noqa: BLE001 - the thread that saves lines does not end because of one of them
                self.lose("unexpected", f"a line was lost: {type(error).__name__}")
            self._busy = False
            if monotonic_ns() - before_ns <= STALL_NS and queue.empty():
                self._stalled = False
                self._draining = False
                if queue.empty():
                    return
                self._draining = True

    def _at_exit(self) -> None:
        """Give the thread a second, then tell what is lost: in the file, or on stderr where the file takes no line."""
        self._ending = True  # whoever marks from here on, a finalizer, finds no thread that would write for it
        deadline_ns = monotonic_ns() + round(AT_EXIT_S * 1e9)
        while self._draining and (self._busy or not self._queue.empty()) and monotonic_ns() < deadline_ns:
            sleep(0.005)
        try:
            while True:
                self._queue.get_nowait()
                self._lost += 1
        except Empty:
            pass
        if not self._lost:
            return
        if not self._busy:  # else the disk hangs, and would hang this as well
            try:
                self._confess(self._look(self._name, monotonic_ns()).fd)
            except OSError as error:
                self.say("exit", f"{self._lost} lines were lost: {complaint(error)[0]}")
        if self._lost:
            self.say("exit", f"{self._lost} lines were lost")

    # -- values --

    def _plain(self, event: object, stray: tuple[object, ...], fields: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """Make JSON of whatever came."""
        notes: list[str] = []
        plain: dict[str, Any] = {}
        for name, value in fields.items():
            key = _text(name)
            while key in ("t", "event") or (key != name and key in fields):
                key += "_"
            if key != name:
                notes.append(f"{_text(name)}: kept as {key}")
                self.say("name", f'a field cannot be called "{name}"; it is kept as "{key}"')
            plain[key] = self._value(key, value, notes, 0)
        if stray:
            notes.append("stray: values without a name")
            self.say("stray", "values need names: mark('fallback_engaged', id=...)")
            plain["stray"] = [self._value("stray", value, notes, 0) for value in stray[:16]]
        word = event if type(event) is str else _text(_repr(event))
        if type(event) is not str or not event:
            self.say("event", "an event is a word: mark('fallback_engaged', id=...)")
            notes.append("event: no word")
        if notes:
            plain["mark_notes"] = notes[:16]
        return _text(word)[:200] or "unnamed", plain

    def _value(self, name: str, value: object, notes: list[str], depth: int) -> Any:
        match value:
            case None | bool():
                return value
            case Enum():
                return self._value(name, value.value, notes, depth + 1) if depth < 4 else _text(_repr(value))
            case str():
                return _text(str.__str__(value))
            case int():
                number = int(value)
                return number if number.bit_length() <= 1024 else _text(hex(number))
            case float():
                number_found = float(value)
                if number_found - number_found == 0:
                    return number_found
                notes.append(f"{name}: {number_found} is no number of JSON")
                self.say("not-finite", f"{name}={number_found} is no number of JSON; null is written")
                return None
            case dict() if depth < 4:
                pairs = list(value.items())[:64]
                return {
                    _text(k if isinstance(k, str) else _repr(k)): self._value(name, v, notes, depth + 1)
                    for k, v in pairs
                }
            case list() | tuple() if depth < 4:
                return [self._value(name, v, notes, depth + 1) for v in list(value)[:64]]
            case BaseException():
                return type(value).__name__
            case type():
                return value.__name__
        kind = type(value)
        if kind.__module__ in ("datetime", "decimal", "fractions", "pathlib", "uuid", "ipaddress"):
            return _text(str(value))
        if hasattr(kind, "__index__"):  # numpy's integers
            return int(operator.index(value))  # type: ignore[arg-type]  # it has __index__, which mypy cannot see
        notes.append(f"{name}: the repr of a {kind.__name__}")
        self.say("repr", f"{name} is a {kind.__name__}, which JSON has no word for; its repr is written")
        return _text(_repr(value))


def _identity(fd: int) -> tuple[int, int] | None:
    try:
        found = os.fstat(fd)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _text(text: str) -> str:
    """Clip, and make encodable: half a surrogate pair becomes its escape."""
    return text[:4096].encode("utf-8", "backslashreplace").decode()


def _repr(value: object) -> str:
    try:
        return repr(value)[:200]
    except Exception:  # noqa: BLE001 - a repr that raises is the worker's own, and this is its request path
        return f"<{type(value).__name__}>"


_marks = Marks()
