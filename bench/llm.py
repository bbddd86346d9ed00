"""What a token costs, beside those who measure language models: `python bench/llm.py --tools DIR[:DIR] [--rounds 2]`.

An origin on loopback speaks 50 tokens a second on each stream, the first 200 to 220 ms after it was asked; it stamps each chunk
as it sends it and counts what it sent. Our engine, our whole `interview`, the `openai` client (asynchronous, from the
environment that runs this), guidellm and aiperf each hold 20 streams, then 200 with answers of 100 tokens, then 200 with answers
of 50; on each stream one answer follows the other.

CPU is that of the whole tree of processes (wait4, orphans adopted), and tokens are the origin's count. Each client runs three
times as wide: one short answer a stream, then as many short ones as long ones, then long ones. `CPU a token` is what the third
run took more than the first, by the tokens that it had more: start and workers without work are not in it, requests are.
`alone` is what it took more than the second, so that requests are not in it either; what an answer takes beside its tokens has
a column. `pace` is how long the origin would have taken with clients that ask again at once, by how long it took: a client
that cannot hold the streams asks late, and reads several tokens at once, which makes a token cheaper for it.

Then each is given streams of which every fourth ends early, by a connection that closes within the answer, and by an answer
that is whole but for its `finish_reason` and `[DONE]`: how many failures it says, and its exit code.

guidellm and aiperf are used where `--tools` names the folders that hold them (python -m venv V; V/bin/pip install
guidellm==0.8.1; --tools V/bin); they take 6 GB and 1.2 GB. Neither is let out: what is not loopback goes to a closed port,
guidellm needs no tokenizer for prompts from a file, aiperf gets one that is made here. Loopback only.
"""

import argparse
import asyncio
import contextlib
import ctypes
import importlib.metadata
import itertools
import json
import math
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from bench.engine import said as held_to
from bench.proxy import on_core
from bench.tokens import FIRST_S, PER_S, Truth, origin
from drillmaster.evidence.samples import OUTCOMES, read_gaps, read_samples
from drillmaster.load.reading import open_interview_run
from drillmaster.stats import quantile
from drillmaster.verdict import Absent

FEW = 10
MOST_FAILED = 0.1
EARLY_STREAMS, EARLY_REQUESTS, EARLY_TOKENS = 20, 80, 25
OURS, INTERVIEW, OPENAI, GUIDELLM, AIPERF = (
    "drillmaster engine",
    "drillmaster interview",
    "openai client",
    "guidellm",
    "aiperf",
)
LEAST = {OPENAI: 10.0, GUIDELLM: 10.0, AIPERF: 3.0}
"""What each has to cost a token at least, in times of our engine."""
LIMIT_S = 240.0
"""Of one run of one client; then it is ended, with all that descends from it."""
TOKENIZER = {
    "tokenizer.json": {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "model": {"type": "WordLevel", "vocab": {"<unk>": 0}, "unk_token": "<unk>"},
    },
    "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "<unk>"},
}
"""One token for each word, as the origin speaks."""
_WORD = re.compile(r"t[0-9]+ ?")
QUESTION = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hello"}]}


# A tree of processes


def _tree(root: int) -> list[int]:
    """All that descend from a process."""
    parents: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                stat = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
                parents.setdefault(int(stat[1]), []).append(int(name))
    found, todo = [], [root]
    while todo:
        todo += (children := parents.get(todo.pop(), []))
        found += children
    return found


def run_tree(argv: list[str], told: str, folder: str, limit_s: float) -> None:
    """Run a command to the end of its last descendant; print as JSON its exit code and CPU."""
    pr_set_child_subreaper = 36
    ctypes.CDLL(None).prctl(pr_set_child_subreaper, 1, 0, 0, 0)  # orphans of the tree become this process's children
    places = Path(folder)
    with (places / "stdin").open("w+") as stdin, (places / "said").open("w") as out:
        stdin.write(told)
        stdin.seek(0)
        main = subprocess.Popen(argv, stdin=stdin, stdout=out, stderr=subprocess.STDOUT, cwd=folder)
    begun = time.monotonic()
    cpu_s, code = 0.0, None
    while True:
        try:
            pid, status, used = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            break
        if pid:
            cpu_s += used.ru_utime + used.ru_stime
            if pid == main.pid:
                code = main.returncode = os.waitstatus_to_exitcode(status)
            continue
        now = time.monotonic()
        if now - begun > limit_s or (code is not None and now - begun > limit_s / 2):
            for pid in _tree(os.getpid()):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
    print(json.dumps({"code": code, "cpu_s": cpu_s, "seconds": time.monotonic() - begun}))


@dataclass(frozen=True)
class Ran:
    code: int
    cpu_s: float
    seconds: float


def run(argv: Sequence[object], told: str, folder: Path, limit_s: float, **env: str) -> Ran:
    nowhere = "http://127.0.0.1:9"
    clean = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    ways = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
    shut = dict.fromkeys(ways, nowhere)
    open_to = {"NO_PROXY": "127.0.0.1,localhost", "no_proxy": "127.0.0.1,localhost", "OPENAI_API_KEY": "none"}
    words = json.dumps([[str(word) for word in argv], told, str(folder), limit_s])
    done = subprocess.run(
        on_core(1, [sys.executable, __file__, "--run", words]),
        capture_output=True,
        text=True,
        check=True,
        timeout=limit_s + 60,
        env={**clean, **shut, **open_to, "HOME": str(folder), "PYTHONPATH": os.environ.get("PYTHONPATH", ""), **env},
    )
    return Ran(**json.loads(done.stdout))


# The clients


@dataclass(frozen=True)
class Asked:
    port: int
    streams: int
    requests: int
    folder: Path
    capped: bool = False
    """Whether it is to be told, in its own way, how many may fail."""

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@dataclass(frozen=True)
class Said:
    """What a client says of its run, times in seconds; `tokens` None: it does not say."""

    tokens: int | None
    failed: int
    first: dict[float, float]
    gap: dict[float, float]
    note: str = ""
    chunks: str = ""
    """Where it has gaps chunk by chunk beside a mean of each answer."""
    gate: int | None = None
    """Exit code of what judges its run, where that is a command of its own."""
    skip: int = 0
    """So many answers, the first ones, are none of what it reports on."""


P = (0.5, 0.95)
Client = Callable[[Asked], tuple[Ran, Said]]


def quantiles(values: Sequence[float]) -> dict[float, float]:
    found = {q: quantile(values, q) for q in P}
    return {q: math.nan if isinstance(one, Absent) else one.value for q, one in found.items()}


def engine(asked: Asked) -> tuple[Ran, Said]:
    spec = {
        "to": [{"host": "127.0.0.1", "port": asked.port}],
        "shot": {
            "target": "/v1/chat/completions",
            "authority": "localhost",
            "headers": {"Content-Type": "application/json"},
            "payloads": [json.dumps({**QUESTION, "user": "{n}"})],
            "dialect": "openai_chat",
        },
        "stages": [{"label": "s", "kind": "closed", "level": asked.streams, "calls": asked.requests}],
        "time_limit_s": 120,
        "samples": str(asked.folder / "samples.bin"),
        "gaps": str(asked.folder / "gaps.bin"),
        "mono0_ns": time.monotonic_ns(),
    }
    done = run([sys.executable, "-m", "drillmaster.engines"], json.dumps(spec), asked.folder, LIMIT_S)
    _, columns = read_samples((asked.folder / "samples.bin").read_bytes())
    gaps = [gap / 1e6 for _, row in read_gaps((asked.folder / "gaps.bin").read_bytes(), columns.rows) for gap in row]
    firsts = [(row.word_ns - row.due_ns) / 1e9 for row in columns.rows if row.word_ns]
    bad = [OUTCOMES[row.outcome] for row in columns.rows if OUTCOMES[row.outcome] != "ok"]
    words = sum(row.words for row in columns.rows)
    return done, Said(words, len(bad), quantiles(firsts), quantiles(gaps), ", ".join(sorted(set(bad))))


def interview(asked: Asked) -> tuple[Ran, Said]:
    words = [sys.executable, "-m", "drillmaster", "interview", f"{asked.base}/v1/chat/completions", "--stream"]
    words += ["--dialect", "openai_chat", "--model", "m", "--levels", asked.streams, "--warm", asked.requests]
    words += ["--idle", "0", "--rehearsal", "--yes", "--timeout", "60", "--out", "interview.json"]
    done = run(words, "", asked.folder, LIMIT_S)
    (run_dir,) = (asked.folder / "runs").glob("2*")
    read = open_interview_run(run_dir).interview
    (level,) = (one for one in read.levels if one.kind == "closed")
    policy = {"cold_max_s": 30, f"warm_c{asked.streams}": {"p95_s": 30, "error_rate": MOST_FAILED}}
    (asked.folder / "policy.json").write_text(json.dumps(policy))
    judged = subprocess.run(
        [sys.executable, "-m", "drillmaster", "gate", "interview", run_dir, "--policy", asked.folder / "policy.json"],
        capture_output=True,
        text=True,
        check=False,
    )
    (asked.folder / "judged").write_text(judged.stdout + judged.stderr)
    first, gap = ({q: measured(level, time, q) for q in P} for time in ("ttft", "itl"))
    counted = sum(row.words for one in run_dir.glob("samples*") for row in read_samples(one.read_bytes())[1].rows)
    note = ", ".join((*sorted(level.failed), *(["void"] if level.void else [])))
    return done, Said(counted, level.failures, first, gap, note, gate=judged.returncode, skip=asked.streams + 1)


def measured(level: Any, time_name: str, q: float) -> float:
    measure = level.measure(time_name, f"p{q * 100:.0f}")
    return math.nan if isinstance(measure, Absent) else measure.value


def openai_client(asked: Asked) -> tuple[Ran, Said]:
    told = json.dumps([f"{asked.base}/v1", asked.streams, asked.requests])
    done = run([sys.executable, __file__, "--openai", told], "", asked.folder, LIMIT_S)
    said = json.loads((asked.folder / "openai.json").read_text())
    gaps = [gap for row in said["gaps"] for gap in row]
    return done, Said(said["tokens"], said["failed"], quantiles(said["firsts"]), quantiles(gaps), said["note"])


async def call_openai(base: str, streams: int, requests: int) -> dict[str, object]:
    """A caller's own loop around the client, which has none: stamps each piece, counts what it raises."""
    from openai import AsyncOpenAI, OpenAIError

    client = AsyncOpenAI(base_url=base, api_key="none", max_retries=0, timeout=120)
    firsts: list[float] = []
    gaps: list[list[float]] = []
    raised: dict[str, int] = {}
    left = iter(range(requests))

    async def caller() -> None:
        for _ in left:
            asked_s, stamps = time.perf_counter(), []
            try:
                stream = await client.chat.completions.create(
                    model="m", stream=True, messages=[{"role": "user", "content": "hello"}]
                )
                async for piece in stream:
                    if piece.choices and piece.choices[0].delta.content:
                        stamps.append(time.perf_counter())
            except OpenAIError as error:
                raised[type(error).__name__] = raised.get(type(error).__name__, 0) + 1
            if stamps:
                firsts.append(stamps[0] - asked_s)
            gaps.append([b - a for a, b in itertools.pairwise(stamps)])

    await asyncio.gather(*(caller() for _ in range(streams)))
    tokens = sum(map(len, gaps)) + len(firsts)
    return {"tokens": tokens, "firsts": firsts, "gaps": gaps, "failed": sum(raised.values()), "note": ", ".join(raised)}


def guidellm(program: str) -> Client:
    def client(asked: Asked) -> tuple[Ran, Said]:
        data, report = asked.folder / "prompts.jsonl", asked.folder / "guidellm.json"
        data.write_text("".join(json.dumps({"prompt": f"hello {n}"}) + "\n" for n in range(asked.requests)))
        words = [program, "run", "--disable-console-interactive", "--data", f"kind=json_file,path={data}"]
        words += ["--backend", f"kind=openai_http,target={asked.base},model=m"]
        words += ["--profile", f"kind=concurrent,streams={asked.streams}"]
        words += ["--constraint", f"kind=max_requests,count={asked.requests}", "--output", f"kind=json,path={report}"]
        words += ["--constraint", f"kind=max_error_rate,rate={MOST_FAILED}"] if asked.capped else []
        done = run(words, "", asked.folder, LIMIT_S)
        if not report.exists():
            raise ValueError(f"no report, exit {done.code}")
        (one,) = json.loads(report.read_text())["benchmarks"]
        metrics, totals = one["metrics"], one["metrics"]["request_totals"]
        kinds = ("successful", "errored", "incomplete")
        tokens = sum(len(_WORD.findall(row.get("output") or "")) for kind in kinds for row in one["requests"][kind])
        first, gap = (
            {
                q: (metrics[name]["successful"].get("percentiles") or {}).get(f"p{q * 100:.0f}", math.nan) / 1e3
                for q in P
            }
            for name in ("time_to_first_token_ms", "inter_token_latency_ms")
        )
        return done, Said(tokens, totals["errored"] + totals["incomplete"], first, gap, chunks="mean of an answer")

    return client


def aiperf(program: str) -> Client:
    def client(asked: Asked) -> tuple[Ran, Said]:
        words_of = asked.folder / "tokenizer"
        words_of.mkdir()
        for name, content in TOKENIZER.items():
            (words_of / name).write_text(json.dumps(content))
        data, said = asked.folder / "prompts.jsonl", asked.folder / "said-of"
        data.write_text("".join(json.dumps({"text": f"hello {n}"}) + "\n" for n in range(asked.requests)))
        words = [program, "profile", "--model", "m", "--url", asked.base, "--endpoint-type", "chat", "--streaming"]
        words += ["--concurrency", asked.streams, "--request-count", asked.requests, "--tokenizer", words_of]
        words += ["--input-file", data, "--custom-dataset-type", "single-turn", "--artifact-dir", said, "--ui", "none"]
        words += ["--no-gpu-telemetry", "--no-server-metrics", "--request-timeout-seconds", "120"]
        words += ["--failed-request-threshold", MOST_FAILED] if asked.capped else []
        done = run(words, "", asked.folder, LIMIT_S)
        reports = list(said.rglob("profile_export_aiperf.json"))
        if not reports:
            raise ValueError(f"no report, exit {done.code}")
        report = json.loads(reports[0].read_text())
        tokens = int(report.get("total_output_tokens", {}).get("avg", 0))
        failed = int(report.get("error_request_count", {}).get("avg", 0))
        first, gap, chunks = (
            {q: report.get(name, {}).get(f"p{q * 100:.0f}", math.nan) / 1e3 for q in P}
            for name in ("time_to_first_token", "inter_token_latency", "inter_chunk_latency")
        )
        by_chunk = f"mean of an answer; of its chunks {chunks[0.5] * 1e3:.1f} and {chunks[0.95] * 1e3:.1f}"
        return done, Said(tokens, failed, first, gap, chunks=by_chunk)

    return client


def clients(folders: Sequence[Path]) -> dict[str, Client]:
    """All that are here; says which, of what version, and which are not."""
    path = os.pathsep.join(map(str, folders))
    found: dict[str, Client] = {OURS: engine, INTERVIEW: interview}
    versions, missing = [f"drillmaster {importlib.metadata.version('drillmaster')}"], []
    try:
        versions.append(f"openai {importlib.metadata.version('openai')}")
        found[OPENAI] = openai_client
    except importlib.metadata.PackageNotFoundError:
        missing.append(OPENAI)
    for name, make in ((GUIDELLM, guidellm), (AIPERF, aiperf)):
        if program := shutil.which(name, path=path):
            asks = f"import importlib.metadata as m; print(m.version({name!r}))"
            python = [str(Path(program).parent / "python"), "-c", asks]
            versions.append(f"{name} {subprocess.check_output(python, text=True).strip()}")
            found[name] = make(program)
        else:
            missing.append(name)
    print(f"Python {sys.version.split()[0]}; {', '.join(versions)}; not found: {', '.join(missing) or 'none'}")
    return found


# Side by side


@dataclass(frozen=True)
class Run:
    ran: Ran
    said: Said
    truth: Truth
    """Of what it reports on."""
    all: Truth


def one(client: Client, streams: int, requests: int, tokens: int, ends: str = "whole", *, capped: bool = False) -> Run:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log = folder / "truth.json"
        with origin(tokens, ends, log) as port:
            ran, said = client(Asked(port, streams, requests, folder, capped))
        truth = Truth([tuple(row) for row in json.loads(log.read_text())])
    return Run(ran, said, truth.after(said.skip), truth)


@dataclass(frozen=True)
class Case:
    streams: int
    tokens: int
    """Of a long answer."""
    answers: int
    """On each stream, one after the other."""

    @property
    def name(self) -> str:
        return f"{self.streams}x{self.tokens}"


CASES = {case.name: case for case in (Case(20, 250, 3), Case(200, 100, 3), Case(200, 50, 6))}
JUDGED = ("200x100", "200x50")


@dataclass(frozen=True)
class Cost:
    """Three runs of one client, all as wide: one short answer a stream, as many short ones as there are long ones, long ones."""

    one: Run
    few: Run
    many: Run

    @property
    def us(self) -> float:
        return self._more(self.one)

    @property
    def us_alone(self) -> float:
        return self._more(self.few)

    @property
    def us_an_answer(self) -> float:
        """What an answer takes beside its tokens."""
        cpu_s = self.few.ran.cpu_s - self.one.ran.cpu_s
        spoken_us = self.us_alone * (self.few.all.tokens - self.one.all.tokens)
        return (cpu_s * 1e6 - spoken_us) / (len(self.few.all.rows) - len(self.one.all.rows))

    def _more(self, than: Run) -> float:
        return (self.many.ran.cpu_s - than.ran.cpu_s) / (self.many.all.tokens - than.all.tokens) * 1e6


def cost_of(client: Client, case: Case) -> Cost:
    streams, requests = case.streams, case.streams * case.answers
    return Cost(
        one(client, streams, streams, FEW),
        one(client, streams, requests, FEW),
        one(client, streams, requests, case.tokens),
    )


def pace(run: Run, case: Case) -> float:
    begin_ns, end_ns = run.truth.span_ns
    return case.answers * (FIRST_S + (case.tokens + 0.5) / PER_S) / ((end_ns - begin_ns) / 1e9)


NO_REPORT = (LookupError, ValueError, TypeError, OSError, subprocess.SubprocessError)


def costs(here: dict[str, Client], cases: Sequence[str], rounds: int) -> bool:
    done: dict[str, dict[str, list[Cost]]] = {name: {} for name in cases}
    for _ in range(rounds):
        for case_name in cases:
            for name, client in here.items():
                try:
                    cost = cost_of(client, CASES[case_name])
                except NO_REPORT as error:
                    print(f"{name}, {case_name}: no report: {error!r:.300}", flush=True)
                    continue
                done[case_name].setdefault(name, []).append(cost)
                print(f"{case_name}, {name}: {cost.us:.1f} µs, alone {cost.us_alone:.1f}", file=sys.stderr, flush=True)
    fine = True
    for case_name, by_name in done.items():
        if OURS in by_name:
            print_costs(CASES[case_name], by_name)
            print_times(by_name)
            fine &= case_name not in JUDGED or judge(CASES[case_name], by_name)
    return fine


def us_of(rows: Sequence[Cost]) -> float:
    return statistics.median(row.us for row in rows)


def print_costs(case: Case, by_name: dict[str, list[Cost]]) -> None:
    print(
        f"\n{case.streams} streams of {PER_S:g} tokens a second, {case.answers} answers of {case.tokens} tokens on each:\n"
    )
    print(
        "| client | CPU µs a token | times ours | alone | times ours | µs an answer | CPU s in all | tokens seen | pace |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    ours, ours_alone = us_of(by_name[OURS]), statistics.median(row.us_alone for row in by_name[OURS])
    for name, rows in by_name.items():
        us, alone = us_of(rows), statistics.median(row.us_alone for row in rows)
        answer = statistics.median(row.us_an_answer for row in rows)
        whole_s = statistics.median(row.many.ran.cpu_s for row in rows)
        seen = min((row.many.said.tokens or 0) / row.many.all.tokens for row in rows)
        held = statistics.median(pace(row.many, case) for row in rows)
        cells = [name, f"{us:.1f}", f"{us / ours:.1f}", f"{alone:.1f}", f"{alone / ours_alone:.1f}", f"{answer:,.0f}"]
        print(f"| {' | '.join([*cells, f'{whole_s:.1f}', f'{seen:.1%}', f'{held:.0%}'])} |")


def print_times(by_name: dict[str, list[Cost]]) -> None:
    print(
        "\n| client | first token ms, p50: said | true | p95: said | true | gap ms, p50: said | true | p95: said | true | |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name, rows in by_name.items():
        cells = []
        truths = [(quantiles(row.many.truth.firsts_s), quantiles(row.many.truth.gaps_s)) for row in rows]
        for place in (0, 1):
            for q in P:
                says = [(row.many.said.first, row.many.said.gap)[place][q] for row in rows]
                cells += [statistics.median(says) * 1e3, statistics.median(one[place][q] for one in truths) * 1e3]
        print(f"| {' | '.join([name, *(f'{cell:.1f}' for cell in cells)])} | {rows[-1].many.said.chunks} |")


def judge(case: Case, by_name: dict[str, list[Cost]]) -> bool:
    print()
    fine, where = True, f"{case.streams} streams, answers of {case.tokens} tokens:"
    for name, least in LEAST.items():
        if name in by_name:
            times = us_of(by_name[name]) / us_of(by_name[OURS])
            fine &= held_to(f"{where} {name} costs", times, least, "times our engine a token", least=True)
        else:
            print(f"not measured: {name}")
    for name in (OURS, INTERVIEW):
        if name in by_name:
            missed = sum(row.many.all.tokens - (row.many.said.tokens or 0) for row in by_name[name])
            fine &= held_to(f"{where} {name}:", missed, 0, "tokens missed")
    return fine


def early(here: dict[str, Client]) -> bool:
    print(f"\n{EARLY_REQUESTS} answers on {EARLY_STREAMS} streams, a quarter of which end early:\n")
    print("| client | the answer's end | failures said | true | exit code | |")
    print("|---|---|---|---|---|---|")
    fine = True
    for name, client in here.items():
        for ends, capped in (
            ("cut", False),
            ("unfinished", False),
            *([("cut", True)] if name in (GUIDELLM, AIPERF) else []),
        ):
            how = f"{ends}, told to allow {MOST_FAILED:.0%}" if capped else ends
            try:
                run = one(client, EARLY_STREAMS, EARLY_REQUESTS, EARLY_TOKENS, ends, capped=capped)
            except NO_REPORT as error:
                print(f"| {name} | {how} | no report: {error!r:.200} |", flush=True)
                continue
            said, true = run.said, run.truth.broken
            code = f"{run.ran.code}" if said.gate is None else f"{run.ran.code}, its gate {said.gate}"
            print(f"| {name} | {how} | {said.failed} | {true} | {code} | {said.note} |", flush=True)
            if name in (OURS, INTERVIEW):
                fine &= said.failed == true and said.gate in (None, 1)
    print(
        f"{'met' if fine else 'NOT MET'}: our engine and interview count each answer that ended early, and the gate says 1"
    )
    return fine


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--tools", default="", help="folders with guidellm and aiperf, between colons")
    parser.add_argument(
        "--case", action="append", choices=list(CASES), help="streams and tokens an answer, of one case alone"
    )
    parser.add_argument(
        "--client",
        action="append",
        choices=[OURS, INTERVIEW, *LEAST],
        help="one client alone, by its name; may be given again",
    )
    parser.add_argument("--part", choices=("costs", "early"), help="one of the two alone")
    options = parser.parse_args()
    print(f"load average before: {os.getloadavg()[0]:.1f}")
    print("CPU holds while others load the machine; times do not: they are also how long others had the core.")
    here = clients([Path(folder).absolute() for folder in options.tools.split(":") if folder])
    here = {name: client for name, client in here.items() if not options.client or name in options.client}
    fine = True
    if options.part != "early":
        fine &= costs(here, options.case or list(CASES), options.rounds)
    if options.part != "costs":
        fine &= early(here)
    print(f"load average after: {os.getloadavg()[0]:.1f}")
    return 0 if fine else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        run_tree(*json.loads(sys.argv[2]))
    elif sys.argv[1:2] == ["--openai"]:
        heard = asyncio.run(call_openai(*json.loads(sys.argv[2])))
        Path("openai.json").write_text(json.dumps(heard))
        sys.exit(1 if heard["failed"] else 0)
    else:
        sys.exit(main())
