"""The ledger of a free tier: lines are added, in turn, dated and signed for; whatever else happened to it is found."""

import fcntl
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.cli.ledger import command
from drillmaster.clock import parse_rfc3339
from drillmaster.errors import Problem
from drillmaster.intake import turns
from drillmaster.intake.ledger import add, open_new, read_ledger

NOW_NS = parse_rfc3339("2026-11-30T16:00:00Z") or 0
MINUTE_NS = 60 * 10**9


def opened(folder: Path) -> Path:
    path = folder / "ledger.jsonl"
    open_new(path, job="nightly lint", by="ada", now_ns=NOW_NS)
    return path


def incident(cause: str = "capacity", **more: Any) -> dict[str, Any]:
    return {"kind": "incident", "cause": cause, "at": "2026-11-30T15:00:00Z", "by": "ada", "note": ""} | more


def hours(spent: Any = 2.5, **more: Any) -> dict[str, Any]:
    return {"kind": "hours", "hours": spent, "at": "2026-11-30T15:00:00Z", "by": "ada", "note": ""} | more


def filled(folder: Path) -> Path:
    path = opened(folder)
    rows = [
        incident(),
        hours(),
        {"kind": "flag", "flag": "mean-only", "stands": True, "by": "bea"},
        {"kind": "nothing", "by": "cem"},
    ]
    for number, fields in enumerate(rows, 2):
        assert add(path, fields, now_ns=NOW_NS + number * MINUTE_NS) == number
    return path


def test_what_was_added_is_read_back_with_who_and_when(tmp_path: Path) -> None:
    ledger = read_ledger(filled(tmp_path))
    assert ledger.job == "nightly lint"
    assert [line.by for line in ledger.lines] == ["ada", "ada", "ada", "bea", "cem"]
    assert [(one.cause, one.line) for one in ledger.incidents()] == [("capacity", 2)]
    assert [one.hours for one in ledger.spent()] == [2.5]
    assert ledger.flags() == ("mean-only",)
    assert ledger.kept_ns == NOW_NS + 5 * MINUTE_NS


def test_an_unknown_cause_is_settled_once_by_another_line(tmp_path: Path) -> None:
    path = opened(tmp_path)
    add(path, incident("unknown"), now_ns=NOW_NS)
    add(path, incident("code", settles=2), now_ns=NOW_NS)
    assert [one.cause for one in read_ledger(path).incidents()] == ["code"]
    before = path.read_bytes()
    for bad in (
        incident("capacity", settles=2),  # settled already
        incident("unknown", settles=2),
        incident("code", settles=3),  # the line that settles
        incident("code", settles=1),
        incident("code", settles=4),  # itself
        incident("code", settles=99),
        incident("code", settles=-1),
    ):
        with pytest.raises(Problem):
            add(path, bad, now_ns=NOW_NS)
    assert path.read_bytes() == before


def test_a_known_cause_is_never_made_another(tmp_path: Path) -> None:
    path = opened(tmp_path)
    add(path, incident("capacity"), now_ns=NOW_NS)
    with pytest.raises(Problem, match="no incident of unknown cause"):
        add(path, incident("code", settles=2), now_ns=NOW_NS)


def test_a_flag_that_went_down_stands_no_more(tmp_path: Path) -> None:
    path = filled(tmp_path)
    add(path, {"kind": "flag", "flag": "mean-only", "stands": False, "by": "bea"}, now_ns=NOW_NS + 9 * MINUTE_NS)
    assert read_ledger(path).flags() == ()


BAD_LINES: dict[str, dict[str, Any]] = {
    "hours that are no number": hours("2.5"),
    "no hours": hours(0),
    "negative hours": hours(-1.0),
    "NaN hours": hours(float("nan")),
    "hours true": hours(True),
    "more hours than a month has": hours(745),
    "a cause that is none": incident("bad luck"),
    "an incident of tomorrow": incident(at="2026-12-01T15:00:00Z"),
    "an incident without a zone": incident(at="2026-11-30T15:00:00"),
    "an incident some day": incident(at="yesterday"),
    "by nobody": incident(by=""),
    "by a space": incident(by=" "),
    "by two lines": incident(by="ada\nbea"),
    "a flag that is none": {"kind": "flag", "flag": "slow", "stands": True, "by": "ada"},
    "another kind": {"kind": "praise", "by": "ada"},
    "no kind": {"by": "ada"},
    "one field more": incident(severity=3),
    "a long note": incident(note="x" * 1001),
    "a second first line": {"kind": "opened", "version": 1, "job": "x", "by": "ada"},
    "half a character": incident(note="\ud800"),
}


@pytest.mark.parametrize("case", BAD_LINES)
def test_a_line_that_no_reader_would_take_is_never_written(tmp_path: Path, case: str) -> None:
    path = filled(tmp_path)
    before = path.read_bytes()
    with pytest.raises(Problem):
        add(path, BAD_LINES[case], now_ns=NOW_NS + 9 * MINUTE_NS)
    assert path.read_bytes() == before


def test_a_clock_that_was_set_back_writes_nothing(tmp_path: Path) -> None:
    path = filled(tmp_path)
    with pytest.raises(Problem, match="older than the one before"):
        add(path, {"kind": "nothing", "by": "ada"}, now_ns=NOW_NS - 60 * MINUTE_NS)


def edited(lines: list[bytes], what: str) -> bytes:
    if what == "one taken out":
        del lines[2]
    elif what == "the first taken out":
        del lines[0]
    elif what == "two changed places":
        lines[1], lines[2] = lines[2], lines[1]
    elif what == "one twice":
        lines.insert(2, lines[2])
    elif what == "a cause changed":
        lines[1] = lines[1].replace(b"capacity", b"code")
    elif what == "an hour less":
        lines[2] = lines[2].replace(b"2.5", b"1.5")
    elif what == "cut off":
        return b"\n".join(lines)[:-9]
    elif what == "no newline":
        return b"\n".join(lines)
    elif what == "an empty line":
        lines.insert(2, b"")
    elif what == "a space more":
        lines[1] += b" "
    elif what == "one of text":
        lines[1] = b"incident: capacity"
    elif what == "a name twice":
        lines[1] = lines[1].replace(b'{"at"', b'{"cause":"code","at"')
    elif what == "empty":
        return b""
    elif what == "CRLF":
        return b"\r\n".join(lines) + b"\r\n"
    elif what == "a BOM":
        return b"\xef\xbb\xbf" + b"\n".join(lines) + b"\n"
    return b"\n".join(lines) + b"\n"


@pytest.mark.parametrize(
    "what",
    [
        "one taken out",
        "the first taken out",
        "two changed places",
        "one twice",
        "a cause changed",
        "an hour less",
        "cut off",
        "no newline",
        "an empty line",
        "a space more",
        "one of text",
        "a name twice",
        "empty",
        "CRLF",
        "a BOM",
    ],
)
def test_whatever_was_done_to_it_is_found_and_nothing_is_added_then(tmp_path: Path, what: str) -> None:
    path = filled(tmp_path)
    path.write_bytes(edited(path.read_bytes().splitlines(), what))
    with pytest.raises(Problem) as problem:
        read_ledger(path)
    assert str(problem.value).startswith(str(path))
    before = path.read_bytes()
    with pytest.raises(Problem):
        add(path, incident(), now_ns=NOW_NS + 9 * MINUTE_NS)
    assert path.read_bytes() == before


@given(at=st.integers(0, 600), to=st.integers(0, 255))
def test_any_byte_that_is_another_one_is_found(tmp_path_factory: Any, at: int, to: int) -> None:
    folder = tmp_path_factory.mktemp("ledger")
    path = filled(folder)
    data = bytearray(path.read_bytes())
    last = data.rstrip(b"\n").rindex(b"\n")  # what the last line says nothing follows, and nothing proves
    at %= last
    if data[at] == to:
        return
    data[at] = to
    path.write_bytes(data)
    with pytest.raises(Problem):
        read_ledger(path)


def test_a_ledger_is_opened_once(tmp_path: Path) -> None:
    path = opened(tmp_path)
    with pytest.raises(Problem, match="opened once"):
        open_new(path, job="x", by="ada", now_ns=NOW_NS)


@pytest.mark.parametrize(("job", "by"), [("", "ada"), ("x", ""), ("a\nb", "ada"), ("x" * 201, "ada")])
def test_a_ledger_without_a_name_is_not_begun(tmp_path: Path, job: str, by: str) -> None:
    path = tmp_path / "ledger.jsonl"
    with pytest.raises(Problem):
        open_new(path, job=job, by=by, now_ns=NOW_NS)
    assert not path.exists()


def test_nothing_is_made_where_no_ledger_is(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    with pytest.raises(Problem, match="drillmaster ledger open"):
        add(path, incident(), now_ns=NOW_NS)
    assert not path.exists()


@pytest.mark.parametrize("what", ["fifo", "folder", "link"])
def test_what_is_no_file_is_left_alone(tmp_path: Path, what: str) -> None:
    path = tmp_path / "ledger.jsonl"
    target = filled(tmp_path).rename(tmp_path / "other.jsonl")
    {"fifo": lambda: os.mkfifo(path), "folder": path.mkdir, "link": lambda: path.symlink_to(target)}[what]()
    before = target.read_bytes()
    with pytest.raises(Problem):
        add(path, incident(), now_ns=NOW_NS + 9 * MINUTE_NS)
    assert target.read_bytes() == before


def test_writers_take_turns_and_no_line_is_lost(tmp_path: Path) -> None:
    path = opened(tmp_path)
    writers = [
        threading.Thread(target=lambda: [add(path, {"kind": "nothing", "by": "ada"}, now_ns=NOW_NS) for _ in range(10)])
        for _ in range(8)
    ]
    for one in writers:
        one.start()
    for one in writers:
        one.join()
    assert len(read_ledger(path).lines) == 81


# The command line


def ledger(folder: Path, *words: str) -> tuple[int, str]:
    """Run the verb. A Problem is given as its exit code and text, as `main` tells it."""
    result = CliRunner().invoke(command, [*words, "--ledger", str(folder / "ledger.jsonl")])
    if isinstance(result.exception, Problem):
        return int(result.exception.exit), str(result.exception)
    return result.exit_code, result.output


def test_nobody_waits_for_ever_for_one_who_was_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = opened(tmp_path)
    monkeypatch.setattr(turns, "WAIT_S", 0.05)
    with path.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(Problem, match="somebody else has held"):
            add(path, hours(), now_ns=NOW_NS)
    assert add(path, hours(), now_ns=NOW_NS) == 2


def test_an_empty_file_of_one_who_was_killed_is_begun(tmp_path: Path) -> None:
    (tmp_path / "ledger.jsonl").touch()
    assert add(opened(tmp_path), hours(), now_ns=NOW_NS) == 2


def test_a_disk_that_fails_leaves_the_ledger_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = opened(tmp_path)
    before = path.read_bytes()

    def failing(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(Problem, match="a full disk"):
        add(path, hours(), now_ns=NOW_NS)
    assert path.read_bytes() == before


def test_the_verbs_write_what_they_say(tmp_path: Path) -> None:
    assert ledger(tmp_path, "open", "--job", "nightly lint", "--by", "ada")[0] == 0
    assert ledger(tmp_path, "add", "incident", "--cause", "unknown", "--by", "ada", "--note", "late") == (
        0,
        f"{tmp_path / 'ledger.jsonl'}: line 2\n",
    )
    assert ledger(tmp_path, "add", "incident", "--cause", "capacity", "--settles", "2", "--by", "ada")[0] == 0
    assert ledger(tmp_path, "add", "hours", "2.5", "--by", "ada")[0] == 0
    assert ledger(tmp_path, "add", "flag", "second-window", "--by", "ada")[0] == 0
    assert ledger(tmp_path, "add", "nothing", "--by", "ada")[0] == 0
    code, out = ledger(tmp_path, "show")
    assert (code, len(out.splitlines())) == (0, 7)
    assert "ada: kind incident, cause unknown" in " ".join(out.split()) or "cause unknown" in out
    code, out = ledger(tmp_path, "show", "--json")
    assert [line["kind"] for line in json.loads(out)["lines"]] == [
        "opened",
        "incident",
        "incident",
        "hours",
        "flag",
        "nothing",
    ]


@pytest.mark.parametrize(
    "words",
    [
        ("add", "hours", "nan", "--by", "ada"),
        ("add", "hours", "inf", "--by", "ada"),
        ("add", "hours", "-1", "--by", "ada"),
        ("add", "hours", "2,5", "--by", "ada"),
        ("add", "hours", "2.5"),
        ("add", "incident", "--by", "ada"),
        ("add", "incident", "--cause", "capacity", "--by", "ada", "--at", "2099-01-01T00:00:00Z"),
        ("add", "incident", "--cause", "capacity", "--by", "ada", "--at", "yesterday"),
        ("add", "flag", "slow", "--by", "ada"),
        ("add", "nothing"),
    ],
)
def test_what_is_no_entry_is_refused(tmp_path: Path, words: tuple[str, ...]) -> None:
    opened(tmp_path)
    before = (tmp_path / "ledger.jsonl").read_bytes()
    assert ledger(tmp_path, *words)[0] == 2
    assert (tmp_path / "ledger.jsonl").read_bytes() == before
