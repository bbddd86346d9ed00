"""`mark` stands in a user's request path. Each row here once broke somebody's request, or somebody's evidence."""

import atexit
import datetime
import decimal
import enum
import errno
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import drillmaster
from drillmaster.evidence import Defect, Row, rows
from drillmaster.timeline.line import LINE_CAP_BYTES, encode, fit
from drillmaster.timeline.marks import QUEUE_LINES, Marks


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "drill.jsonl"
    monkeypatch.setenv("DRILL_LOG", str(path))
    return path


@pytest.fixture
def marks() -> Iterator[Marks]:
    made = Marks()
    yield made
    atexit.unregister(made._at_exit)
    if made._open is not None:
        os.close(made._open.fd)


def take(marks: Marks, log: Path, event: Any = "note", /, *stray: object, **fields: object) -> None:
    marks.take(os.fsencode(log), event, stray, fields)


def read(log: Path) -> list[Row]:
    found = list(rows([log.read_bytes()], file=log.name))
    assert not [row for row in found if isinstance(row, Defect)]
    return [row for row in found if isinstance(row, Row)]


def said(row: Row) -> dict[str, Any]:
    return {key: value for key, value in row.fields.items() if key not in ("t", "event")}


def test_without_a_drill_nothing_is_written_and_nothing_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DRILL_LOG", raising=False)
    drillmaster.mark("fallback_engaged", id="r1")
    monkeypatch.setenv("DRILL_LOG", "")
    drillmaster.mark("fallback_engaged", id="r1")
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")


def test_a_mark_is_one_dated_line_between_newlines(log: Path) -> None:
    before_ns = time.time_ns() // 1000 * 1000
    drillmaster.mark("fallback_engaged", id="r1", path="fallback")
    data = log.read_bytes()
    (row,) = read(log)
    assert data.startswith(b"\n{")
    assert data.endswith(b"}\n")
    assert data.count(b"\n") == 2
    assert row.event == "fallback_engaged"
    assert said(row) == {"id": "r1", "path": "fallback"}
    assert before_ns <= row.wall_ns <= time.time_ns()


def test_an_event_without_fields_is_a_line(log: Path) -> None:
    drillmaster.mark("alert_acked")
    assert [(row.event, said(row)) for row in read(log)] == [("alert_acked", {})]


def test_the_path_is_read_at_each_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "a"):
        monkeypatch.setenv("DRILL_LOG", str(tmp_path / name))
        drillmaster.mark("note")
    assert len(read(tmp_path / "a")) == 2
    assert len(read(tmp_path / "b")) == 1


def test_a_relative_path_stays_where_it_was_first_seen(
    tmp_path: Path, marks: Marks, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    take(marks, Path("drill.jsonl"))
    monkeypatch.chdir(tmp_path / "elsewhere")
    marks._open.checked_ns = 0  # type: ignore[union-attr]  # as if 50 ms had passed
    take(marks, Path("drill.jsonl"))
    assert len(read(tmp_path / "drill.jsonl")) == 2
    assert not (tmp_path / "elsewhere" / "drill.jsonl").exists()


def test_a_line_torn_by_somebody_else_swallows_none_of_ours(log: Path) -> None:
    drillmaster.mark("note")
    with log.open("ab") as other:
        other.write(b'{"t":"2026-11-29T12:00:00Z","eve')
    drillmaster.mark("fallback_engaged", id="r1")
    found = list(rows([log.read_bytes()], file="f"))
    assert [getattr(row, "event", None) or row.kind for row in found] == ["note", "torn", "fallback_engaged"]  # type: ignore[union-attr]  # a defect has a kind


class Colour(enum.Enum):
    RED = "red"


class Status(enum.IntEnum):
    BAD = 502


class Hostile:
    def __repr__(self) -> str:
        raise RuntimeError("no")


class Indexed:
    def __index__(self) -> int:
        return 200


SELF: list[object] = []
SELF.append(SELF)

VALUES = [
    (math.nan, None, True),
    (math.inf, None, True),
    (-math.inf, None, True),
    ({1}, "{1}", True),
    (b"\x00x", "b'\\x00x'", True),
    (object, "object", False),
    (Hostile(), "<Hostile>", True),
    (Hostile, "Hostile", False),
    (TimeoutError("secret"), "TimeoutError", False),
    (Colour.RED, "red", False),
    (Status.BAD, 502, False),
    (Indexed(), 200, False),
    ("caf\u00e9 \ud800", "caf\u00e9 \\ud800", False),
    ("line\nbreak", "line\nbreak", False),
    (1.5, 1.5, False),
    (True, True, False),
    (None, None, False),
    (2**70, 2**70, False),
    (10**5000, None, False),  # its digits are over Python's own limit; hex is written, clipped
    ({"a": math.nan}, {"a": None}, True),
    ([{1}], ["{1}"], True),
    ((1, 2), [1, 2], False),
    ({1: 2}, {"1": 2}, False),
    (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001", False),
    (decimal.Decimal("1.50"), "1.50", False),
    (datetime.date(2026, 11, 29), "2026-11-29", False),
    (Path("/a/b"), "/a/b", False),
    (SELF, None, True),
]


@pytest.mark.parametrize(
    ("value", "written", "noted"), VALUES, ids=[type(v).__name__ + str(i) for i, (v, _, _) in enumerate(VALUES)]
)
def test_any_value_is_written_as_what_is_nearest(
    value: object, written: object, noted: bool, log: Path, marks: Marks
) -> None:
    take(marks, log, "note", x=value, id="r1")
    (row,) = read(log)
    if not (written is None and isinstance(value, (int, list))):
        assert row.fields["x"] == written
    assert row.fields["id"] == "r1"
    assert ("mark_notes" in row.fields) == noted


def test_trouble_with_a_value_is_said_once(log: Path, marks: Marks, capfd: pytest.CaptureFixture[str]) -> None:
    for _ in range(3):
        take(marks, log, "note", x={1}, ms=math.nan)
    lines = capfd.readouterr().err.splitlines()
    assert lines == [
        "drillmaster.mark: x is a set, which JSON has no word for; its repr is written",
        "drillmaster.mark: ms=nan is no number of JSON; null is written",
    ]


def test_a_field_cannot_override_the_clock_or_the_event(log: Path) -> None:
    fields: dict[str, object] = {"t": "2020-01-01T00:00:00Z", "event": "model_ok", "t_": 1, "id": "r1"}
    drillmaster.mark("fallback_engaged", **fields)
    (row,) = read(log)
    assert row.event == "fallback_engaged"
    assert row.wall_ns > 1_700_000_000 * 10**9
    assert {k: v for k, v in said(row).items() if k != "mark_notes"} == {
        "t__": "2020-01-01T00:00:00Z",
        "event_": "model_ok",
        "t_": 1,
        "id": "r1",
    }


@pytest.mark.parametrize("event", [None, 7, "", b"x", Hostile()])
def test_an_event_that_is_no_word_is_still_a_line(event: object, log: Path) -> None:
    drillmaster.mark(event, id="r1")  # type: ignore[arg-type]  # what a worker without a type checker does
    (row,) = read(log)
    assert row.event
    assert row.fields["id"] == "r1"


def test_values_without_a_name_raise_nothing(log: Path) -> None:
    drillmaster.mark("fallback_engaged", {"id": "r1"})  # type: ignore[arg-type]  # the mistake in question
    (row,) = read(log)
    assert row.fields["stray"] == [{"id": "r1"}]


@pytest.mark.parametrize(
    "fields",
    [
        {"text": "x" * 100_000, "id": "r1"},
        {"text": "\u00e9" * 5_000, "id": "r1"},
        {"text": "\x01" * 5_000, "id": "r1"},
        {"text": '"' * 5_000, "other": "\\" * 5_000, "id": "r1"},
        {"text": ["x" * 3_000, "y" * 3_000], "id": "r1"},
        {**{f"field_{n}": n for n in range(1_000)}, "id": "r1"},
        {"x" * 10_000: 1},
    ],
)
def test_a_line_is_at_most_4_kb(fields: dict[str, object], log: Path, marks: Marks) -> None:
    take(marks, log, "note", **fields)
    assert 3_000 < len(log.read_bytes()) <= LINE_CAP_BYTES or "x" * 10_000 in fields
    (row,) = read(log)
    assert "clipped" in str(row.fields) or "fields_left_out" in row.fields
    if "text" in fields:
        assert row.fields["id"] == "r1"


@pytest.mark.parametrize("size", [*range(3_900, 4_200, 7), 4_096])
def test_no_size_is_over_the_cap(size: int, log: Path, marks: Marks) -> None:
    take(marks, log, "note", text="x" * size)
    assert len(log.read_bytes()) <= LINE_CAP_BYTES
    assert read(log)


def test_fitting_shortens_the_longest_first() -> None:
    found = fit({"a": "x" * 900, "b": "y" * 100, "n": 1}, 500)
    assert len(encode(found)) <= 500
    assert found["b"] == "y" * 100
    assert found["a"].startswith("xxx")
    assert found["a"].endswith("characters clipped)")


SECRETS = [
    {"why": "upstream said: invalid key sk-abcdefghijklmnopqrstuvwx"},
    {"token": "hunter2hunter2"},
    {"password": "short"},
    {"headers": {"authorization": "Bearer abcdefghijklmnop"}},
    {"url": "https://user:pass@example.com/x?sig=abcdef"},
    {"argv": ["serve", "--api-key=zzz999zzz999"]},
    {"argv": ["serve", "--db-password", "short", "-v"]},
    {"sk-abcdefghijklmnopqrstuvwx": 1, "sk-abcdefghijklmnopqrstuvwy": 2},
    {"headers": {"sk-abcdefghijklmnopqrstuvwx": "y"}},
    {"why": 'they sent {"password": "hunter2"}'},
    {"x": b"Bearer abcdefghijklmnop"},
    {"why": "x" * 5_000 + " sk-abcdefghijklmnopqrstuvwx"},
]


@pytest.mark.parametrize("fields", SECRETS)
def test_what_looks_like_a_secret_is_not_written(fields: dict[str, object], log: Path, marks: Marks) -> None:
    take(marks, log, "note", id="r1", **fields)
    (row,) = read(log)
    text = log.read_text()
    for secret in ("sk-abc", "hunter2", "short", "abcdefghijklmnop", "user:pass", "=abcdef", "zzz999"):
        assert secret not in text
    assert row.fields["id"] == "r1"


def test_a_key_in_the_place_of_a_name_or_an_event_is_not_written(log: Path, marks: Marks) -> None:
    take(marks, log, "sk-abcdefghijklmnopqrstuvwx", **{"sk-abcdefghijklmnop1": 1, "sk-abcdefghijklmnop2": 2})
    (row,) = read(log)
    assert row.event == "[screened]"
    assert said(row) == {"[screened]": 1, "[screened]_": 2}


def test_ids_digests_and_traces_are_no_secrets(log: Path, marks: Marks) -> None:
    ids = {
        "id": "550e8400-e29b-41d4-a716-446655440000",
        "trace": "0af7651916cd43dd8448eb211c80319c",
        "sha": "sha256:" + "ab" * 32,
        "tokens": 128,
        "path": "fallback",
    }
    take(marks, log, "note", **ids)
    assert said(read(log)[0]) == ids


# -- places that take no line --


def test_a_missing_folder_is_said_once_and_the_loss_is_written_when_it_is_there(
    tmp_path: Path, marks: Marks, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "runs" / "drill.jsonl"
    take(marks, path)
    take(marks, path)
    assert "no such file or folder" in capfd.readouterr().err
    path.parent.mkdir()
    take(marks, path, "fallback_engaged", id="r1")
    assert [(row.event, row.fields.get("lost")) for row in read(path)] == [
        ("mark_losses", 2),
        ("fallback_engaged", None),
    ]
    assert capfd.readouterr().err == ""


def test_a_fifo_is_refused_and_never_waited_for(
    tmp_path: Path, marks: Marks, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    take(marks, path)  # nobody reads: an open that waits would wait for ever
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    take(marks, path)  # somebody reads: still no place for evidence
    assert os.read(reader, 100) == b""
    os.close(reader)
    assert capfd.readouterr().err.count("no regular file") == 1


@pytest.mark.parametrize("kind", ["folder", "link", "device", "file-as-folder", "nul"])
def test_what_is_no_regular_file_is_refused(kind: str, tmp_path: Path, marks: Marks) -> None:
    path = tmp_path / "place"
    match kind:
        case "folder":
            path.mkdir()
        case "link":
            (tmp_path / "real").touch()
            path.symlink_to(tmp_path / "real")
        case "device":
            path = Path("/dev/null")
        case "file-as-folder":
            path.touch()
            path = path / "drill.jsonl"
        case "nul":
            path = tmp_path / ("x" * 300)  # a name too long for any file system here
    take(marks, path)
    assert marks._lost == 1


def test_a_full_disk_costs_the_line_and_says_so(log: Path, capfd: pytest.CaptureFixture[str]) -> None:
    full = [True]

    def disk(fd: int, line: bytes) -> int:
        if full[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        return os.write(fd, line)

    marks = Marks(disk)
    take(marks, log)
    take(marks, log)
    full[0] = False
    take(marks, log, "model_ok")
    assert [(row.event, row.fields.get("lost")) for row in read(log)] == [("mark_losses", 2), ("model_ok", None)]
    assert capfd.readouterr().err.count("a full disk") == 1


def test_a_short_write_is_followed_by_the_whole_line(log: Path) -> None:
    short = [10]

    def disk(fd: int, line: bytes) -> int:
        return os.write(fd, line[: short.pop()] if short else line)

    take(Marks(disk), log, "fallback_engaged", id="r1")
    torn, row = rows([log.read_bytes()], file="f")
    assert isinstance(torn, Defect)
    assert torn.kind == "torn"
    assert isinstance(row, Row)
    assert row.fields["id"] == "r1"


def test_a_file_that_is_moved_away_is_made_anew(log: Path, marks: Marks) -> None:
    take(marks, log)
    log.rename(log.with_suffix(".1"))
    marks._open.checked_ns = 0  # type: ignore[union-attr]  # as if 50 ms had passed
    take(marks, log, "model_ok")
    assert [row.event for row in read(log)] == ["model_ok"]
    assert [row.event for row in read(log.with_suffix(".1"))] == ["note"]


def test_a_descriptor_that_became_somebody_elses_gets_no_line_of_ours(log: Path, tmp_path: Path, marks: Marks) -> None:
    take(marks, log)
    opened = marks._open
    assert opened is not None
    socket_like = os.open(tmp_path / "other", os.O_WRONLY | os.O_CREAT)
    os.dup2(socket_like, opened.fd)  # a daemon closed everything, and the number was given out again
    opened.checked_ns = 0
    take(marks, log, "model_ok")
    assert (tmp_path / "other").read_bytes() == b""
    assert [row.event for row in read(log)] == ["note", "model_ok"]
    os.close(opened.fd)
    os.close(socket_like)


def test_path_changes_leave_no_descriptors_behind(tmp_path: Path, marks: Marks) -> None:
    take(marks, tmp_path / "first")
    before = len(os.listdir("/proc/self/fd"))
    for n in range(50):
        take(marks, tmp_path / f"log-{n}")
    assert len(os.listdir("/proc/self/fd")) == before


# -- stalls --


@pytest.mark.e2e
def test_after_a_slow_write_lines_go_to_a_queue_and_nobody_waits(log: Path) -> None:
    gate = threading.Event()
    slow = [True, True]

    def disk(fd: int, line: bytes) -> int:
        if slow and slow.pop():
            gate.wait(10) if not slow else time.sleep(0.06)
        return os.write(fd, line)

    marks = Marks(disk)
    take(marks, log, "first")  # the caller's own write, 60 ms
    began = time.monotonic()
    for n in range(QUEUE_LINES + 500):  # the thread hangs in the first of these
        take(marks, log, "later", n=n)
    assert time.monotonic() - began < 9
    lost = marks._lost
    assert 400 <= lost <= 501
    gate.set()
    deadline = time.monotonic() + 20
    while marks._stalled and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not marks._stalled
    take(marks, log, "last")
    found = read(log)
    assert sum(row.event == "later" for row in found) == QUEUE_LINES + 500 - lost
    assert [row.fields["lost"] for row in found if row.event == "mark_losses"] == [lost]
    assert found[-1].event == "last"


def test_many_threads_lose_nothing_at_the_first_open(log: Path) -> None:
    for attempt in range(20):
        path = log.with_name(f"log-{attempt}")
        marks = Marks()
        start = threading.Barrier(8)

        def work(number: int, path: Path = path, marks: Marks = marks, start: threading.Barrier = start) -> None:
            start.wait()
            for n in range(20):
                take(marks, path, "note", thread=number, n=n)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(read(path)) == 160
        assert marks._open is not None
        os.close(marks._open.fd)


def test_a_mark_in_a_signal_handler_in_the_middle_of_marks_is_a_line_too(log: Path, marks: Marks) -> None:
    hits = 0

    def handler(number: int, frame: object) -> None:
        nonlocal hits
        hits += 1
        take(marks, log, "from_handler")

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.0007)
    try:
        for n in range(2_000):
            take(marks, log, "note", n=n)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    found = read(log)
    assert sum(row.event == "note" for row in found) == 2_000
    assert sum(row.event == "from_handler" for row in found) == hits > 0


def test_a_keyboard_interrupt_goes_through(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupting:
        def __repr__(self) -> str:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        drillmaster.mark("note", x=Interrupting())


def python(code: str, log: Path | None = None) -> subprocess.CompletedProcess[str]:
    env = {key: value for key, value in os.environ.items() if key != "DRILL_LOG"}
    if log is not None:
        env["DRILL_LOG"] = str(log)
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60, check=True)


@pytest.mark.e2e
def test_importing_mark_pulls_in_little() -> None:
    loaded = json.loads(
        python("import sys, json; from drillmaster import mark; print(json.dumps(sorted(sys.modules)))").stdout
    )
    assert not {"asyncio", "ssl", "socket", "subprocess", "click", "ruamel", "jinja2", "difflib"} & set(loaded)
    ours = [name for name in loaded if name.startswith("drillmaster.") and not name.startswith("drillmaster.strict")]
    assert set(ours) <= {
        "drillmaster.clock",
        "drillmaster.errors",
        "drillmaster.screen",
        "drillmaster.timeline",
        "drillmaster.timeline.line",
        "drillmaster.timeline.marks",
        "drillmaster.timeline.opening",
    }


@pytest.mark.e2e
def test_a_forked_child_marks_the_same_file_and_owes_nothing_for_its_parent(log: Path) -> None:
    done = python(
        "import os\n"
        "from drillmaster import mark\n"
        "from drillmaster.timeline.marks import _marks\n"
        "mark('parent')\n"
        "_marks.lose('x', 'said by the parent')\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    mark('child')\n"
        "    os._exit(0)\n"
        "os.waitpid(pid, 0)\n",
        log,
    )
    assert done.returncode == 0
    assert [(row.event, row.fields.get("lost")) for row in read(log)] == [
        ("parent", None),
        ("child", None),
        ("mark_losses", 1),  # at the parent's exit
    ]


@pytest.mark.e2e
def test_marks_of_a_dying_interpreter_are_lines_and_no_noise(log: Path) -> None:
    done = python(
        "import atexit, weakref\n"
        "from time import sleep\n"
        "from drillmaster import mark\n"
        "from drillmaster.timeline.marks import _marks\n"
        "atexit.register(mark, 'at_exit')\n"
        "mark('first')\n"
        "class Late:\n"
        "    def __del__(self, mark=mark, sleep=sleep):\n"
        "        sleep(1.01)\n"  # so that the descriptor is looked at and the second spelled anew
        "        mark('del')\n"
        "keep = Late()\n"
        "_marks._stalled = True\n",  # as after a slow write: no thread of the dying interpreter will come for the rest
        log,
    )
    assert done.stderr == ""
    assert [row.event for row in read(log)] == ["first", "at_exit", "del"]


@pytest.mark.e2e
@pytest.mark.parametrize("stderr", ["sys.stderr = None", "sys.stderr.close()", "os.close(2)"])
def test_a_worker_without_stderr_goes_without(stderr: str, tmp_path: Path) -> None:
    python(f"import os, sys\nfrom drillmaster import mark\n{stderr}\nmark('x', y={{1}})\n", tmp_path / "no" / "log")
