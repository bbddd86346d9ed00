"""What a transcript costs: `python bench/transcripts.py [--missions 125000] [--rounds 5]`.

In the worker: CPU of one line of each kind, median of rounds, through the real writer into a real file, screening on; and
what everything costs where there is no drill. The census: CPU and peak memory of a child process over one file of eight
lines a mission, every line checked. Covering: the same file, looked through for secrets before the seal.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

T = "2026-12-01T08:00:00.000001Z"
BODY = json.dumps({"user_id": "4b9b4d0a", "history": [{"role": "user", "content": "Refund order #1234"}]})
EVENT = (
    'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"word "}}]}\n\n'
)
CHILD = """
import json, resource, sys
from pathlib import Path
{job}
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps([count, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024]))
"""
JOBS = {
    "census (every line checked)": (
        "from drillmaster.transcripts import read_census\n"
        "run, missions = Path(sys.argv[1]), int(sys.argv[2])\n"
        "found = read_census(run, None, {f'm{n}ab12': 1 for n in range(missions)}, run='r1')\n"
        "assert found.complete == missions\ncount = found.lines"
    ),
    "covering what others wrote": (
        "from drillmaster.transcripts.covering import cover\ncount = cover(Path(sys.argv[1])).lines"
    ),
}


def file_of(folder: Path, missions: int) -> None:
    """Write a transcript of eight lines for each mission."""
    (folder / "transcripts").mkdir()
    kinds: tuple[tuple[str, dict[str, object]], ...] = (
        ("started", {"entry": "http"}),
        ("user", {"method": "POST", "url": "/agent/mission", "body": BODY}),
        ("model_request", {"call": "m1", "url": "http://127.0.0.1/v1/chat/completions", "body": BODY}),
        ("model_response", {"call": "m1", "status": 200, "chunks": [[n, "data: {}\n\n"] for n in range(20)]}),
        ("tool_call", {"call": "t2", "tool": "refund", "arguments": {"order": 1}}),
        ("tool_result", {"call": "t2", "ok": True, "result": {"refunded": 1}}),
        ("answer", {"status": 200, "body": BODY}),
        ("ended", {"lines": 8, "ok": True}),
    )
    with (folder / "transcripts" / "worker.ndjson").open("w", encoding="utf-8") as sink:
        for mission in range(missions):
            for seq, (kind, more) in enumerate(kinds):
                line = {
                    "t": T,
                    "mission": f"m{mission}ab12",
                    "run": "r1",
                    "part": str(mission),
                    "seq": seq,
                    "kind": kind,
                }
                sink.write(json.dumps({**line, **more}, separators=(",", ":")) + "\n")


def cpu_ns(call: Callable[[], object], rounds: int, count: int) -> float:
    """The median over rounds of a call's CPU."""
    call()
    taken = []
    for _ in range(rounds):
        began = time.process_time_ns()
        for _ in range(count):
            call()
        taken.append((time.process_time_ns() - began) / count)
    return statistics.median(taken)


def worker(folder: Path, rounds: int) -> None:
    """Print what each line costs."""
    from drillmaster.adapters.worker import transcript

    headers = {"X-Drill-Mission": "m1ab12"}
    events = [(n * 10.0, EVENT.encode()) for n in range(100)]
    body = BODY.encode()

    def nothing() -> None:
        with transcript.mission(headers) as said:
            said.user(body)
            said.answer(body)

    os.environ.pop("DRILL_TRANSCRIPTS", None)
    print("| in the worker | ns CPU |\n|---|---|")
    print(f"| no drill: a mission with a message and an answer | {cpu_ns(nothing, rounds, 20_000):,.0f} |")
    os.environ["DRILL_TRANSCRIPTS"] = str(folder)
    os.environ["DRILL_RUN"] = "r1"
    said = transcript.mission(headers)

    def whole() -> None:
        with transcript.mission(headers) as one:
            one.user(body, method="POST", url="/agent/mission")
            call = one.model_request(body, url="http://127.0.0.1/v1/chat/completions")
            one.model_response(call, body, status=200)
            tool = one.tool_call("refund", {"order": 1})
            one.tool_result(tool, {"refunded": 1})
            one.answer(body, status=200)

    fields = [("Content-Type", "application/json"), ("Host", "127.0.0.1")]
    rows: tuple[tuple[str, Callable[[], object], int], ...] = (
        (
            "user, 90 B and two headers",
            lambda: said.user(body, method="POST", url="/agent/mission", headers=fields),
            4_000,
        ),
        ("tool_call", lambda: said.tool_call("refund", {"order": 1, "amount": 20}), 4_000),
        ("tool_result", lambda: said.tool_result("t1", {"refunded": 1}), 4_000),
        ("model_response, 100 events, 11 kB", lambda: said.model_response("m1", status=200, pieces=events), 100),
        ("a mission of eight lines, whole", whole, 500),
    )
    for name, call, count in rows:
        print(f"| {name} | {cpu_ns(call, rounds, count):,.0f} |")


def main() -> int:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--missions", type=int, default=125_000)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="drillmaster-bench-"))
    try:
        worker(home / "worker", asked.rounds)
        file_of(home, asked.missions)
        print("\n| over one file | lines | CPU s | µs a line | peak MB |\n|---|---|---|---|---|")
        for name, job in JOBS.items():
            ran = subprocess.run(
                [sys.executable, "-c", CHILD.format(job=job), str(home), str(asked.missions)],
                capture_output=True,
                text=True,
                check=True,
            )
            count, seconds, peak = json.loads(ran.stdout)
            print(f"| {name} | {count:,} | {seconds:.2f} | {seconds / count * 1e6:.1f} | {peak:.0f} |")
    finally:
        shutil.rmtree(home, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
