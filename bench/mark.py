"""What a mark and a line cost: `python bench/mark.py [--lines 1000000] [--marks 20000] [--rounds 5]`.

Marks: `drillmaster.mark` beside the usual helper (open, json.dumps, close), turn by turn in one process, as a ratio of CPU
time; then at 1,000 a second, where each call is timed by itself. Default configuration: lines are screened. Reader, seal
and verify: CPU and peak memory of a child process each, over one file made for the purpose; beside the reader a plain
loop of `json.loads` over the same file, which checks nothing.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from drillmaster.timeline.marks import Marks

LINE = (
    '\n{"t":"2026-11-29T12:%02d:%02d.%06dZ","event":"user_request","id":"r-%d","phase":"end","status":200,"ms":412.5}\n'
)

JOBS = {
    "rows (every line checked)": (
        "from drillmaster.evidence import rows\nfrom drillmaster.timeline import chunks\n"
        "count = sum(1 for _ in rows(chunks(path), file='timeline.jsonl'))"
    ),
    "json.loads (nothing checked)": (
        "import json\ncount = 0\nfor line in open(path, 'rb'):\n"
        "    if not line.isspace():\n        json.loads(line)\n        count += 1"
    ),
    "seal": (
        "from pathlib import Path\nfrom drillmaster.clock import SystemClock\nfrom drillmaster.timeline import seal_run\n"
        "count = seal_run(Path(path).parent, SystemClock()).files['timeline.jsonl'].lines // 2"
    ),
    "verify": (
        "from pathlib import Path\nfrom drillmaster.timeline import verify_run\n"
        "report = verify_run(Path(path).parent)\nassert not report.changes\ncount = report.files['timeline.jsonl'].lines // 2"
    ),
}
CHILD = """
import json, resource, sys, time
path = sys.argv[1]
{job}
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps([count, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024]))
"""


def usual(path: str) -> Callable[..., None]:
    """Make the helper that everybody writes first."""

    def mark(event: str, **fields: object) -> None:
        row = {"t": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": event, **fields}
        with open(path, "a", encoding="utf-8") as sink:
            sink.write(json.dumps(row, sort_keys=True) + "\n")

    return mark


def cpu_us(call: Callable[[], None], count: int) -> float:
    before = time.process_time_ns()
    for _ in range(count):
        call()
    return (time.process_time_ns() - before) / count / 1000


def marks(folder: Path, count: int, rounds: int) -> None:
    ours, name = Marks(), os.fsencode(folder / "ours.jsonl")
    theirs = usual(str(folder / "theirs.jsonl"))

    def one() -> None:
        ours.take(name, "fallback_engaged", (), {"id": "r-123", "path": "fallback"})

    def other() -> None:
        theirs("fallback_engaged", id="r-123", path="fallback")

    pairs = [(cpu_us(one, count), cpu_us(other, count)) for _ in range(rounds)]
    ours_us, theirs_us = (statistics.median(column) for column in zip(*pairs, strict=True))
    ratio = statistics.median(b / a for a, b in pairs)
    print(
        f"mark            {ours_us:6.2f} us CPU   open+json.dumps {theirs_us:6.2f} us CPU   {ratio:4.1f}x   (bar: 4x, 5 us)"
    )
    took_us = []
    due = time.monotonic()
    for _ in range(3_000):
        due += 0.001
        time.sleep(max(0.0, due - time.monotonic()))
        before = time.perf_counter_ns()
        one()
        took_us.append((time.perf_counter_ns() - before) / 1000)
    took_us.sort()
    print(f"mark at 1,000/s p50 {took_us[1500]:.1f} us, p99 {took_us[2970]:.1f} us, wall   (bar: p99 50 us)")


def reading(folder: Path, lines: int) -> None:
    (folder / "manifest.json").write_text("{}\n")
    path = folder / "timeline.jsonl"
    with path.open("w") as file:
        for n in range(lines):
            file.write(LINE % (n // 60_000_000 % 60, n // 1_000_000 % 60, n % 1_000_000, n // 2))
    print(f"{lines:,} lines, {path.stat().st_size / 1e6:.0f} MB")
    for title, job in JOBS.items():
        done = subprocess.run(
            [sys.executable, "-c", CHILD.format(job=job), str(path)], stdout=subprocess.PIPE, check=True, timeout=600
        )
        count, cpu_s, peak_mb = json.loads(done.stdout)
        assert count == lines, (title, count)
        print(
            f"{title:30} {cpu_s / lines * 1e6:6.2f} us CPU a line   {lines / cpu_s:10,.0f} lines/s   peak {peak_mb:5.0f} MB"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--marks", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-mark-") as name:
        marks(Path(name), asked.marks, asked.rounds)
    with tempfile.TemporaryDirectory(prefix="bench-mark-") as name:
        reading(Path(name), asked.lines)
    print(f"this process: peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    main()
