"""How often something was judged: an append-only ledger, so that asking until the answer is yes can be seen.

1. One line a verdict, JSON, with the digest of the line before it. A line that was taken out, changed or put in between
   breaks the chain, and a broken chain refuses.
2. An attempt is new evidence, or a new policy, about the same subject. The same evidence under the same policy judged
   again is the same attempt: a gate gives the same answer however often it is asked.
3. The ledger is an input: its count stands in the verdict. One that nobody kept from the last time counts from 1, and so
   says nothing; in CI keep the file, and name it with --attempts.
"""

import fcntl
import hashlib
import os
from pathlib import Path

import msgspec

from drillmaster.errors import Problem
from drillmaster.intake import is_there, read_bytes
from drillmaster.strict import shown
from drillmaster.timeline.opening import complaint

__all__ = ["Attempt", "Ledger"]

_CAP_BYTES = 64 << 20
_FIRST = "0" * 64


class Attempt(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line. `n` counts the attempts at one subject by one gate, from 1."""

    at: str
    gate: str
    subject: str
    n: int
    status: str
    evidence: str
    policy: str
    before: str
    """SHA-256 of the line before, without its newline; zeros for the first."""


class Ledger:
    """The ledger of one file; it may not be there yet. Raises Problem."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def number(self, *, gate: str, subject: str, evidence: str, policy: str) -> tuple[int, tuple[str, ...]]:
        """Give the number that this attempt has, and how the ones before it ended."""
        rows, _ = self._read()
        return _number(rows, gate, subject, evidence, policy)

    def append(self, *, at: str, gate: str, subject: str, status: str, evidence: str, policy: str) -> int:
        """Write an attempt down, once for the same evidence and policy; give its number. Two writers take turns."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK, 0o644)
        except OSError as error:
            raise self._unwritable(error) from None
        with os.fdopen(descriptor, "r+b") as file:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                rows, last = self._read()
                n, _ = _number(rows, gate, subject, evidence, policy)
                if any(_same(one, gate, subject, evidence, policy) for one in rows):
                    return n
                attempt = Attempt(
                    at=at,
                    gate=gate,
                    subject=subject,
                    n=n,
                    status=status,
                    evidence=evidence,
                    policy=policy,
                    before=last,
                )
                file.write(msgspec.json.encode(attempt) + b"\n")
                file.flush()
                os.fsync(descriptor)
            except OSError as error:
                raise self._unwritable(error) from None
        return n

    def _read(self) -> tuple[list[Attempt], str]:
        if not is_there(self.path):
            return [], _FIRST
        rows: list[Attempt] = []
        before = _FIRST
        data = read_bytes(self.path, _CAP_BYTES)
        lines = data.split(b"\n")
        if lines.pop() != b"":
            raise self._broken(len(lines) + 1, "a line that was cut off")
        for number, line in enumerate(lines, 1):
            try:
                one = msgspec.json.decode(line, type=Attempt)
            except msgspec.DecodeError as error:
                raise self._broken(number, f"no attempt ({error})") from None
            if one.before != before:
                raise self._broken(number, f"a line that follows another one than {shown(before[:12])}")
            rows.append(one)
            before = hashlib.sha256(line).hexdigest()
        return rows, before

    def _broken(self, number: int, found: str) -> Problem:
        return Problem(
            f"{self.path}:{number}",
            found=found,
            wanted="a ledger to which lines were only ever added",
            remedy=f"restore it from its last copy; to begin a new one, which the verdict then counts from 1: mv {self.path}"
            f" {self.path}.broken",
        )

    def _unwritable(self, error: OSError) -> Problem:
        return Problem(
            str(self.path),
            found=complaint(error)[0],
            wanted="a ledger that can be written",
            remedy="free it, or name another one: --attempts FILE",
        )


def _same(one: Attempt, gate: str, subject: str, evidence: str, policy: str) -> bool:
    return (one.gate, one.subject, one.evidence, one.policy) == (gate, subject, evidence, policy)


def _number(rows: list[Attempt], gate: str, subject: str, evidence: str, policy: str) -> tuple[int, tuple[str, ...]]:
    ours = [one for one in rows if (one.gate, one.subject) == (gate, subject)]
    for at, one in enumerate(ours):
        if _same(one, gate, subject, evidence, policy):
            return one.n, tuple(before.status for before in ours[:at])
    return len(ours) + 1, tuple(one.status for one in ours)
