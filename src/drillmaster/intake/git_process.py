"""How git is run: nothing of a tree's own configuration takes part, every wait has a deadline, and what comes is bounded."""

import contextlib
import os
import selectors
import subprocess
import time
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

__all__ = ["MAX_BYTES", "Begun", "Object", "Objects", "ask", "begin"]

QUIET = (
    "--no-optional-locks",
    "--no-replace-objects",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.pager=cat",
    "-c",
    "diff.external=",
    "-c",
    "core.quotePath=true",
    "-c",
    "submodule.recurse=false",
    "-c",
    "log.showSignature=false",
    "-c",
    "core.alternateRefsCommand=",
    "-c",
    "core.commitGraph=false",
    "-c",
    "protocol.allow=never",
)
MAX_BYTES = 256 * 1024 * 1024
_BLOCK = 1 << 20


class Object(msgspec.Struct, frozen=True):
    """One object: its full name, what it is (`blob`, `tree`, `commit`, `tag`), and its bytes; None: longer than was wanted."""

    sha: str
    kind: str
    content: bytes | None


class Objects:
    """One `git cat-file --batch` for as long as it is asked: a start costs more than hundreds of answers."""

    def __init__(self, path: Path, *, timeout_s: float) -> None:
        self._path, self._timeout_s = path, timeout_s
        self._child: subprocess.Popen[bytes] | None = None
        self._ready = selectors.DefaultSelector()
        self._held = bytearray()
        self._ended: Callable[[], object] = bool

    def start(self) -> None:
        """Start the process before there is a question. Where it cannot be, the first question says so."""
        with contextlib.suppress(OSError):
            self._running()

    def get(self, name: str, *, cap_bytes: int) -> Object | None:
        """Find what a name means; None: nothing, or several things. Raises OSError where git gives no answer that can be used.

        `name` holds no line's end. An object over `cap_bytes` is read past, and never held.
        """
        try:
            return self._asked(name, cap_bytes)
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """End the process. The next question starts another one."""
        child, self._child = self._child, None
        if child is not None:
            self._ready.unregister(child.stdout)  # type: ignore[arg-type]  # it is a pipe
            self._ended()
        self._held.clear()

    def _asked(self, name: str, cap_bytes: int) -> Object | None:
        child = self._running()
        assert child.stdin is not None
        ends = time.monotonic() + self._timeout_s
        # One line at a time is far below a pipe's size, so a git that hangs holds up nothing here.
        os.write(child.stdin.fileno(), name.encode("utf-8", "surrogateescape") + b"\n")
        head = self._line(ends).decode("utf-8", "replace").split(" ")
        if len(head) != 3 or not head[2].isdigit():
            if head[-1] in ("missing", "ambiguous"):
                return None
            raise OSError("git cat-file said what is no answer")
        size = int(head[2])
        content = None
        if size <= cap_bytes:
            content = self._bytes(size, ends)
        else:
            self._past(size, ends)
        if self._bytes(1, ends) != b"\n":
            raise OSError("git cat-file said what is no answer")
        return Object(head[0], head[1], content)

    def _running(self) -> "subprocess.Popen[bytes]":
        if self._child is None:
            child = _started(self._path, ("cat-file", "--batch"), stdin=subprocess.PIPE)
            if child is None:
                raise OSError("git could not be started")
            self._child = child
            self._ready.register(child.stdout, selectors.EVENT_READ)  # type: ignore[arg-type]  # it is a pipe
            self._ended = weakref.finalize(self, _end, child, os.getpid())
        return self._child

    def _line(self, ends: float) -> bytes:
        while (at := self._held.find(b"\n")) < 0:
            if len(self._held) > 4_096:
                raise OSError("git cat-file said a line without an end")
            self._more(ends)
        line = bytes(self._held[:at])
        del self._held[: at + 1]
        return line

    def _bytes(self, count: int, ends: float) -> bytes:
        while len(self._held) < count:
            self._more(ends)
        found = bytes(self._held[:count])
        del self._held[:count]
        return found

    def _past(self, count: int, ends: float) -> None:
        while len(self._held) < count:
            count -= len(self._held)
            self._held.clear()
            self._more(ends)
        del self._held[:count]

    def _more(self, ends: float) -> None:
        assert self._child is not None and self._child.stdout is not None
        if not self._ready.select(max(0.0, ends - time.monotonic())):
            raise OSError("git cat-file gave no answer in time")
        block = os.read(self._child.stdout.fileno(), _BLOCK)
        if not block:
            raise OSError("git cat-file ended")
        self._held += block


def ask(
    path: Path, args: Sequence[str], *, timeout_s: float, data: bytes | None = None, cap_bytes: int = MAX_BYTES
) -> bytes | None:
    """Run git in a folder by rule 1; what it printed, or None: no git, no answer in time, too much, or it said no.

    At most `cap_bytes` are ever held, and a git that prints more is ended.
    """
    child = _started(path, args, stdin=subprocess.PIPE if data else subprocess.DEVNULL)
    return None if child is None else _answer(child, data, timeout_s, cap_bytes)


class Begun:
    """A git that was started before its answer is wanted. Its end is the end of this object, if nobody asks."""

    def __init__(self, child: "subprocess.Popen[bytes] | None") -> None:
        self._child = child
        self._ended = bool if child is None else weakref.finalize(self, _end, child, os.getpid())

    def answer(self, *, timeout_s: float, cap_bytes: int = MAX_BYTES) -> bytes | None:
        """Give what `ask` would. To be asked once."""
        child, self._child = self._child, None
        if child is None:
            return None
        try:
            return _answer(child, None, timeout_s, cap_bytes)
        finally:
            self._ended()


def begin(path: Path, args: Sequence[str]) -> Begun:
    """Start git as `ask` does, and do not wait for it."""
    return Begun(_started(path, args, stdin=subprocess.DEVNULL))


def _answer(child: "subprocess.Popen[bytes]", data: bytes | None, timeout_s: float, cap_bytes: int) -> bytes | None:
    with child:
        said = _exchange(child, data or b"", time.monotonic() + timeout_s, cap_bytes)
        if said is None:
            child.kill()
            return None
        if not _has_ended(child, timeout_s):
            child.kill()
            return None
        code = child.wait()
    return said if code == 0 else None


def _exchange(child: subprocess.Popen[bytes], data: bytes, deadline: float, cap_bytes: int) -> bytes | None:
    """Write `data` and read to the end, both at once: neither side's full pipe stops the other."""
    assert child.stdout is not None
    out, unsent = bytearray(), memoryview(data)
    with selectors.DefaultSelector() as ready:
        ready.register(child.stdout, selectors.EVENT_READ)
        if child.stdin is not None:
            os.set_blocking(child.stdin.fileno(), False)
            ready.register(child.stdin, selectors.EVENT_WRITE)
        while True:
            events = ready.select(max(0.0, deadline - time.monotonic()))
            if not events:
                return None
            for key, _ in events:
                if key.fileobj is child.stdout:
                    block = os.read(key.fd, 1 << 20)
                    if not block:
                        return bytes(out)
                    out += block
                    if len(out) > cap_bytes:
                        return None
                    continue
                try:
                    unsent = unsent[os.write(key.fd, unsent[: 1 << 16]) :] if unsent else unsent
                except BrokenPipeError:
                    unsent = memoryview(b"")
                if not unsent and child.stdin is not None:
                    ready.unregister(child.stdin)
                    child.stdin.close()


def _has_ended(child: "subprocess.Popen[bytes]", timeout_s: float) -> bool:
    """Wait for a process's end without looking again and again: `Popen.wait` sleeps longer than git takes to end."""
    try:
        fd = os.pidfd_open(child.pid)
    except (AttributeError, OSError):  # another system, or an older kernel
        try:
            child.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True
    try:
        with selectors.DefaultSelector() as ready:
            ready.register(fd, selectors.EVENT_READ)
            return bool(ready.select(timeout_s))
    finally:
        os.close(fd)


def _started(path: Path, args: Sequence[str], *, stdin: int) -> "subprocess.Popen[bytes] | None":
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    env |= {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1", "LC_ALL": "C"}
    env["GIT_GRAFT_FILE"] = os.devnull
    try:
        return subprocess.Popen(  # noqa: S603  # a fixed program with arguments of ours
            ["git", *QUIET, "-C", os.fspath(path), *args],  # noqa: S607  # git is where PATH says
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=env,
        )
    except (OSError, ValueError):
        return None


def _end(child: "subprocess.Popen[bytes]", started_by: int) -> None:
    """End a process that only reads; nothing of it is lost. A fork of whoever started it leaves it alone."""
    if os.getpid() != started_by:
        return
    child.kill()
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            pipe.close()
    child.wait()
