"""Several processes, one file, and some of them die in the middle of a line."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from drillmaster.clock import SystemClock
from drillmaster.evidence import Defect, Row, rows
from drillmaster.timeline import Unwritable, Writer, chunks, verify_run

pytestmark = pytest.mark.e2e

MARKER = """
import sys
from drillmaster import mark
writer, count, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
filler = "x" * size
print("ready", flush=True)
n = 0
while n < count:
    mark("user_request", writer=writer, n=n, filler=filler)
    n += 1
"""
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "timeline.md"


def spawn(code: str, *arguments: object, log: Path, **options: object) -> subprocess.Popen[bytes]:
    env = {**os.environ, "DRILL_LOG": str(log)}
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **options,  # type: ignore[call-overload]  # a test's own options
    )


def read(log: Path) -> tuple[list[Row], list[Defect]]:
    found = list(rows(chunks(log), file=log.name))
    return [r for r in found if isinstance(r, Row)], [r for r in found if isinstance(r, Defect)]


def test_eight_writers_lose_nothing_in_one_file(tmp_path: Path) -> None:
    log = tmp_path / "timeline.jsonl"
    workers = [spawn(MARKER, n, 500, 200, log=log) for n in range(8)]
    for worker in workers:
        _, said = worker.communicate(timeout=60)
        assert (worker.returncode, said) == (0, b"")
    good, bad = read(log)
    assert not bad
    assert sorted((r.fields["writer"], r.fields["n"]) for r in good) == sorted(
        (str(w), n) for w in range(8) for n in range(500)
    )


def test_killed_writers_cost_their_own_last_line_and_no_other(tmp_path: Path) -> None:
    log = tmp_path / "timeline.jsonl"
    dice = random.Random(7)
    steady = [spawn(MARKER, f"steady{n}", 1_500, 300, log=log) for n in range(2)]
    killed = 0
    for attempt in range(24):
        victim = spawn(MARKER, f"victim{attempt}", 10**9, 3_000, log=log)
        assert victim.stdout is not None
        victim.stdout.readline()
        time.sleep(dice.uniform(0.005, 0.03))
        victim.send_signal(signal.SIGKILL)
        victim.communicate(timeout=30)
        killed += 1
    for worker in steady:
        worker.communicate(timeout=60)
        assert worker.returncode == 0
    good, bad = read(log)
    for n in range(2):
        assert [r.fields["n"] for r in good if r.fields["writer"] == f"steady{n}"] == list(range(1_500))
    for attempt in range(killed):
        numbers = [r.fields["n"] for r in good if r.fields["writer"] == f"victim{attempt}"]
        assert numbers == list(range(len(numbers)))
    assert len(bad) <= killed
    assert {d.kind for d in bad} <= {"torn"}


def test_a_torn_line_of_a_plain_helper_is_reported_and_glued_to_nothing_of_ours(tmp_path: Path) -> None:
    log = tmp_path / "timeline.jsonl"
    log.write_bytes(b'{"t":"2026-11-29T12:00:00Z","event":"user_request","id":"a')
    worker = spawn(MARKER, "w", 3, 10, log=log)
    worker.communicate(timeout=30)
    good, bad = read(log)
    assert [(d.line, d.kind) for d in bad] == [(1, "torn")]
    assert [r.fields["n"] for r in good] == [0, 1, 2]


LIMITED = """
import resource, sys
from drillmaster import mark
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))
for n in range(500):
    mark("note", n=n, filler="x" * 100)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
mark("after")
print("alive")
"""


def test_a_limit_on_file_sizes_costs_counted_lines_and_no_request(tmp_path: Path) -> None:
    log = tmp_path / "timeline.jsonl"
    out, said = spawn(LIMITED, log=log).communicate(timeout=30)
    assert out == b"alive\n"
    assert said.count(b"\n") == 1
    assert b"limit on the size of files" in said or b"full disk" in said
    good, bad = read(log)
    kept = sum(r.event == "note" for r in good)
    (lost,) = [r.fields["lost"] for r in good if r.event == "mark_losses"]
    assert kept + lost == 500
    assert good[-1].event == "after"
    assert [d.kind for d in bad] in ([], ["torn"])


def test_a_worker_whose_folder_is_missing_says_why_once_and_how_many_at_its_end(tmp_path: Path) -> None:
    worker = spawn(MARKER, "w", 1_000, 100, log=tmp_path / "no" / "log")
    _, said = worker.communicate(timeout=60)
    assert worker.returncode == 0
    first, last = said.decode().splitlines()
    assert "no such file or folder; make the folder" in first
    assert "1000 lines were lost" in last


@pytest.fixture
def small_disk(tmp_path: Path) -> object:
    folder = tmp_path / "small"
    folder.mkdir()
    if os.geteuid() != 0:
        pytest.skip("needs root: mounts a tmpfs of 64 kB")
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if done.returncode != 0:
        pytest.skip("needs the right to mount a tmpfs of 64 kB")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_stops_our_writer_and_no_worker(small_disk: Path) -> None:
    log = small_disk / "timeline.jsonl"
    worker = spawn(MARKER, "w", 1_000, 100, log=log)
    _, said = worker.communicate(timeout=60)
    assert worker.returncode == 0
    assert b"full disk" in said
    assert int(re.findall(rb"(\d+) lines were lost", said)[0]) == 1_000 - len(read(log)[0])
    assert said.count(b"\n") == 2
    with Writer(small_disk / "proxy.jsonl", SystemClock(), 0) as writer, pytest.raises(Unwritable, match="a full disk"):
        for n in range(1_000):
            writer.write("attempt", id=n, filler="x" * 100)
    good, bad = read(log)
    assert [r.fields["n"] for r in good] == list(range(len(good)))
    assert len(good) > 100
    assert [d.kind for d in bad] in ([], ["torn"])


def test_our_writer_goes_on_after_a_kill_where_the_file_ends(tmp_path: Path) -> None:
    path = tmp_path / "proxy.jsonl"
    code = (
        "import sys\nfrom drillmaster.clock import SystemClock\nfrom drillmaster.timeline import Writer\n"
        "w = Writer(sys.argv[1], SystemClock(), 0)\nprint('ready', flush=True)\nn = 0\n"
        "while True:\n    w.write('attempt', id=n, filler='x' * 3_000)\n    n += 1\n"
    )
    for attempt in range(6):
        proxy = spawn(code, path, log=path)
        assert proxy.stdout is not None
        proxy.stdout.readline()
        time.sleep(0.01 + attempt * 0.002)
        proxy.kill()
        proxy.communicate(timeout=30)
    with Writer(path, SystemClock(), 0) as writer:
        writer.write("proxy_ended", why="test")
    good, bad = read(path)
    assert good[-1].event == "proxy_ended"
    assert sum(r.event == "attempt" and r.fields["id"] == 0 for r in good) == 6
    assert len(bad) <= 6


DAEMON = """
import os, socket
from drillmaster import mark
mark("before")
os.closerange(3, 1024)
ours, theirs = socket.socketpair()
sockets = [socket.socketpair() for _ in range(60)]
for n in range(200):
    mark("after", n=n)
theirs.setblocking(False)
received = 0
for a, b in [(ours, theirs), *sockets]:
    for end in (a, b):
        end.setblocking(False)
        try:
            received += len(end.recv(100))
        except BlockingIOError:
            pass
print(received)
"""


def test_a_daemon_that_closes_every_descriptor_finds_no_line_in_its_sockets(tmp_path: Path) -> None:
    log = tmp_path / "timeline.jsonl"
    out, said = spawn(DAEMON, log=log).communicate(timeout=30)
    assert out == b"0\n"
    good, bad = read(log)
    assert not bad
    assert [r.fields["n"] for r in good if r.event == "after"] == list(range(200))
    assert said == b""


# -- the helpers of the reference page, run as they stand there --


def helper(language: str) -> str:
    found = re.search(rf"^```{language} helper\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.S | re.M)
    assert found, language
    return found[1]


def run_python(folder: Path) -> list[str]:
    (folder / "main.py").write_text(
        helper("python") + "mark('user_request', id='a\"b', status=502)\nmark('note', text='caf\\u00e9')\n"
    )
    return [sys.executable, str(folder / "main.py")]


def run_node(folder: Path) -> list[str]:
    (folder / "main.mjs").write_text(
        helper("js") + "mark('user_request', { id: 'a\"b', status: 502 });\nmark('note', { text: 'caf\\u00e9' });\n"
    )
    return ["node", str(folder / "main.mjs")]


def run_shell(folder: Path) -> list[str]:
    (folder / "main.sh").write_text(
        helper("sh") + 'mark user_request \'"id":"a\\"b","status":502\'\nmark note \'"text":"café"\'\n'
    )
    return ["sh", str(folder / "main.sh")]


@pytest.mark.parametrize(
    "build",
    [
        pytest.param(run_python, id="python"),
        pytest.param(run_node, id="node", marks=pytest.mark.needs("node")),
        pytest.param(run_shell, id="sh"),
    ],
)
def test_a_helper_of_four_lines_writes_what_the_reader_takes(
    build: Callable[[Path], list[str]], tmp_path: Path
) -> None:
    log = tmp_path / "drill.jsonl"
    log.write_bytes(b'{"torn')
    env = {**os.environ, "DRILL_LOG": str(log)}
    before_ns = time.time_ns()
    for _ in range(2):
        subprocess.run(build(tmp_path), env=env, cwd=tmp_path, check=True, timeout=30)
    good, bad = read(log)
    assert [(d.line, d.kind) for d in bad] == [(1, "torn")]
    assert [r.event for r in good] == ["user_request", "note"] * 2
    assert good[0].fields["id"] == 'a"b'
    assert good[0].fields["status"] == 502
    assert good[1].fields["text"] == "caf\u00e9"
    assert all(before_ns - 2 * 10**9 < r.wall_ns < time.time_ns() + 10**9 for r in good)
    del env["DRILL_LOG"]
    subprocess.run(build(tmp_path), env=env, cwd=tmp_path, check=True, timeout=30)
    assert len(read(log)[0]) == 4
    assert sorted(p.name for p in tmp_path.iterdir() if not p.name.startswith("main.")) == ["drill.jsonl"]


def test_the_examples_of_the_page_are_what_the_reader_says_of_them() -> None:
    # Each row of the page's table of defects: the line in the first column, the kind in the second.
    table = re.findall(r"^\| `(.+?)` \| `([a-z-]+)` \|", PAGE.read_text(encoding="utf-8"), re.M)
    assert len(table) >= 8
    for line, kind in table:
        (found,) = rows([line.replace("\\|", "|").encode()], file="f")
        assert isinstance(found, Defect), line
        assert found.kind == kind, line


def test_a_run_is_sealed_and_verified_while_a_worker_goes_on_writing(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("{}\n")
    log = tmp_path / "timeline.jsonl"
    worker = spawn(MARKER, "w", 10**9, 100, log=log)
    try:
        assert worker.stdout is not None
        worker.stdout.readline()
        time.sleep(0.2)
        sealers = [
            subprocess.Popen(
                [sys.executable, "-m", "drillmaster", "seal", str(tmp_path)],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            for _ in range(2)
        ]
        heads = {sealer.communicate(timeout=60)[0].splitlines()[1] for sealer in sealers}
        report = verify_run(tmp_path)
    finally:
        worker.kill()
        worker.communicate(timeout=30)
    assert heads == {f"head {report.head}".encode()}  # whoever came second found the first one's seal
    assert report.changes == ()
    assert report.files["timeline.jsonl"].late_lines > 0
    assert report.files["timeline.jsonl"].defects == {}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["manifest.json", "seal.json", "timeline.jsonl"]


def test_the_command_writes_beside_the_workers(tmp_path: Path) -> None:
    log = tmp_path / "timeline.jsonl"
    worker = spawn(MARKER, "w", 2_000, 10, log=log)
    command = [sys.executable, "-m", "drillmaster", "mark", "note", "kind=injection_seen", "text=on", "by=Sam"]
    done = subprocess.run(command, env={**os.environ, "DRILL_LOG": str(log)}, check=False, timeout=30)
    worker.communicate(timeout=60)
    good, bad = read(log)
    assert done.returncode == 0
    assert not bad
    assert len(good) == 2_001
    (note,) = [r for r in good if r.event == "note"]
    assert json.dumps(note.fields["by"]) == '"Sam"'
