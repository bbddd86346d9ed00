"""The ledger of attempts: what was asked again is counted, and nobody takes a line out."""

import errno
import fcntl
import os
import threading
from pathlib import Path

import pytest

from drillmaster.errors import Problem
from drillmaster.intake import attempts, turns
from drillmaster.intake.attempts import Ledger


def append(ledger: Ledger, evidence: str, *, status: str = "fail", policy: str = "p", subject: str = "svc") -> int:
    return ledger.append(
        at="2026-11-30T08:00:00Z", gate="canary", subject=subject, status=status, evidence=evidence, policy=policy
    )


def test_new_evidence_about_one_subject_is_a_new_attempt(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "deep" / "attempts.jsonl")
    assert [append(ledger, one) for one in ("a", "b", "c")] == [1, 2, 3]
    assert append(ledger, "d", subject="other") == 1
    assert ledger.number(gate="canary", subject="svc", evidence="d", policy="p") == (4, ("fail", "fail", "fail"))


def test_the_same_evidence_under_the_same_policy_is_the_same_attempt(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "attempts.jsonl")
    append(ledger, "a")
    append(ledger, "b")
    assert append(ledger, "a") == 1
    assert append(ledger, "a", policy="looser") == 3
    assert len((tmp_path / "attempts.jsonl").read_bytes().splitlines()) == 3


@pytest.mark.parametrize(
    "spoil",
    [
        lambda lines: lines[1:],
        lambda lines: [lines[0], *lines[2:]],
        lambda lines: [lines[0].replace(b'"fail"', b'"pass"'), *lines[1:]],
        lambda lines: [lines[1], lines[0], *lines[2:]],
        lambda lines: [*lines, b"{}\n"],
        lambda lines: [*lines, b"\n"],
        lambda lines: [*lines[:-1], lines[-1][:-20]],
        lambda lines: [*lines[:-1], lines[-1].rstrip(b"\n")],
        lambda lines: [b"\xff\n", *lines],
    ],
)
def test_a_line_taken_out_changed_or_torn_refuses(tmp_path: Path, spoil: object) -> None:
    path = tmp_path / "attempts.jsonl"
    ledger = Ledger(path)
    for one in "abcd":
        append(ledger, one)
    path.write_bytes(b"".join(spoil(path.read_bytes().splitlines(keepends=True))))  # type: ignore[operator]
    with pytest.raises(Problem, match="only ever added"):
        append(ledger, "e")


def test_a_ledger_that_cannot_be_one_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "no" / "\0"):
        with pytest.raises((Problem, ValueError)):
            append(Ledger(path), "a")


def test_two_at_once_take_turns(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "attempts.jsonl")
    threads = [threading.Thread(target=append, args=(ledger, f"e{n}")) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(
        ledger.number(gate="canary", subject="svc", evidence=f"e{n}", policy="p")[0] for n in range(12)
    ) == list(range(1, 13))


def test_who_judges_at_once_gets_a_number_of_its_own(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "attempts.jsonl")
    seen: list[int] = []

    def judge(name: str) -> None:
        with ledger.turn(gate="canary", subject="svc", evidence=name, policy="p") as turn:
            seen.append(turn.n)
            turn.end(at="2026-11-30T08:00:00Z", status="pass")

    threads = [threading.Thread(target=judge, args=(f"e{n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == list(range(1, 9))


def test_an_attempt_that_came_to_no_verdict_leaves_no_line(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "attempts.jsonl")
    with pytest.raises(RuntimeError), ledger.turn(gate="canary", subject="svc", evidence="a", policy="p"):
        raise RuntimeError("a gate that cannot be believed")
    assert append(ledger, "b") == 1


def test_a_full_disk_leaves_no_half_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(tmp_path / "attempts.jsonl")
    append(ledger, "a")
    whole = (tmp_path / "attempts.jsonl").read_bytes()
    write = os.write
    left = [20]

    def full(descriptor: int, data: bytes) -> int:
        if not left[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        done = write(descriptor, bytes(data[: left[0]]))
        left[0] -= done
        return done

    monkeypatch.setattr(attempts.os, "write", full)
    with pytest.raises(Problem, match="a full disk"):
        append(ledger, "b")
    assert (tmp_path / "attempts.jsonl").read_bytes() == whole
    monkeypatch.undo()
    assert append(ledger, "b") == 2


def test_nobody_waits_for_ever_for_one_who_was_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "attempts.jsonl"
    append(Ledger(path), "a")
    monkeypatch.setattr(turns, "WAIT_S", 0.05)
    with path.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(Problem, match="somebody else has held"):
            append(Ledger(path), "b")
    assert append(Ledger(path), "b") == 2


@pytest.mark.parametrize("what", ["folder", "fifo", "device", "no folder"])
def test_what_is_no_file_is_no_ledger(tmp_path: Path, what: str) -> None:
    path = tmp_path / "attempts.jsonl"
    if what == "folder":
        path.mkdir()
    elif what == "fifo":
        os.mkfifo(path)
    elif what == "device":
        path = Path("/dev/null")
    else:
        (tmp_path / "file").write_text("")
        path = tmp_path / "file" / "attempts.jsonl"
    with pytest.raises(Problem, match="a ledger that can be written"):
        append(Ledger(path), "a")
