"""The drill that bounces a worker: what was spent stays spent, whoever asks.

Workers of their own take from one bucket, one call each time, and say each grant on a pipe. While half of the cap is left they are
all killed (SIGKILL), in the middle of what they do, and others are started. Then two things have to hold: the first question after
the bounce finds no more left than was told last, and in all no more is granted than the cap. A grant whose worker was killed before
it could say so is one that counts and that nobody has; so there may be fewer, and never more.
"""

import os
import selectors
import subprocess
import sys
import time

import msgspec

from drillmaster.errors import Refused

__all__ = ["Bounced", "bounced"]

CAP = 200
_WINDOW_MS = 3_600_000
_WITHIN_S = 20.0


class Bounced(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it. `granted` are the grants that a worker lived to tell."""

    cap: int
    killed: int
    started: int
    granted: int
    left_before: int
    left_after: int
    unavailable: int

    @property
    def holds(self) -> bool:
        return self.granted <= self.cap and self.left_after < self.left_before


def bounced(url: str, *, workers: int, within_s: float = _WITHIN_S) -> Bounced:
    """Bounce workers over a store. Raises Refused where they got no answer, or the drill took too long."""
    bucket = f"drillmaster-bounce-{os.urandom(8).hex()}"
    ends = time.monotonic() + within_s
    first = _Crew(url, bucket, workers)
    try:
        first.listen(ends, until=lambda: first.left is not None and first.left <= CAP // 2)
    finally:
        first.kill()
    if first.left is None or first.left > CAP // 2:
        raise _no_answer(url, first)
    second = _Crew(url, bucket, workers)
    try:
        second.listen(ends, until=lambda: second.denied >= workers)
    finally:
        second.kill()
    if second.first_left is None or second.denied < workers:
        raise _no_answer(url, second)
    return Bounced(
        cap=CAP,
        killed=workers,
        started=workers,
        granted=first.granted + second.granted,
        left_before=first.left,
        left_after=second.first_left,
        unavailable=first.unavailable + second.unavailable,
    )


class _Crew:
    """Workers, and what they have told."""

    def __init__(self, url: str, bucket: str, workers: int) -> None:
        command = [sys.executable, "-m", "drillmaster.kits.quota.worker", bucket, str(CAP), str(_WINDOW_MS)]
        # The URL may hold a password: it goes by the environment, and not where all can see it.
        env = {**os.environ, "DRILLMASTER_STORE": url}
        self._all = [
            subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, env=env)  # noqa: S603 - this interpreter and a module of ours
            for _ in range(workers)
        ]
        self.granted = self.denied = self.unavailable = 0
        self.left: int | None = None
        self.first_left: int | None = None

    def listen(self, ends: float, *, until: "object") -> None:
        assert callable(until)
        with selectors.DefaultSelector() as waiting:
            for one in self._all:
                assert one.stdout is not None
                os.set_blocking(one.stdout.fileno(), False)
                waiting.register(one.stdout, selectors.EVENT_READ)
            while not until() and time.monotonic() < ends and waiting.get_map():
                for key, _ in waiting.select(0.2):
                    data = os.read(key.fd, 1 << 16)
                    if not data:
                        waiting.unregister(key.fileobj)
                    self._hear(data)

    def kill(self) -> None:
        for one in self._all:
            one.kill()
        for one in self._all:
            assert one.stdout is not None
            while data := _rest(one.stdout.fileno()):
                self._hear(data)
            one.stdout.close()
            one.wait()

    def _hear(self, data: bytes) -> None:
        for line in data.split(b"\n"):
            word, _, number = line.partition(b" ")
            if word == b"granted" and number.isdigit():
                self.granted += 1
                left = int(number)
                self.left = left if self.left is None else min(self.left, left)
                self.first_left = left if self.first_left is None else max(self.first_left, left)
            elif word == b"denied":
                self.denied += 1
            elif word == b"unavailable":
                self.unavailable += 1


def _rest(fd: int) -> bytes:
    try:
        return os.read(fd, 1 << 16)
    except BlockingIOError:
        return b""


def _no_answer(url: str, crew: _Crew) -> Refused:
    from drillmaster.screen import screen_url

    return Refused(
        screen_url(url) or "store",
        found=f"{crew.granted} grants and {crew.unavailable} questions without an answer, before the time was over",
        wanted=f"a prepared store that answers: half of {CAP} calls are taken before the bounce",
        remedy="drillmaster store check URL",
    )
