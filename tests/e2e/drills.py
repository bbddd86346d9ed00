"""A drill as a user has it: two files, one command, real processes on loopback. Used by the tests of `drillmaster run`."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

POLICY = """\
kind: policy
version: 1
source: runbook of the toy service
owner: the people who test
review_by: "2199-01-01"
gates:
  - gate: eviction
    max_fallback_s: 1
    max_failed_ratio: 0.1
    failed_window: fault
    max_recovery_s: 1.5
    min_met: 5
    max_baseline_failed_ratio: 0.05
    max_unattributed_ratio: 0.05
    max_clock_step_s: 1
"""

# The real endpoint: answers everything, says how often it was asked.
UPSTREAM = """\
import json, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class H(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        n = int(self.headers.get("content-length") or 0)
        self.rfile.read(n)
        body = json.dumps({"text": "an answer of the primary"}).encode()
        self.send_response(int(sys.argv[2]) if self.path != "/" else 200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    do_POST = do_GET
    def log_message(self, *a): pass
ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), H).serve_forever()
"""

# An agent of four lines: it asks its model, passes the trace on, and falls back, unless told not to.
AGENT = """\
import datetime, json, os, signal, subprocess, sys, time, urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
port, kind = int(sys.argv[1]), sys.argv[2]
print(json.dumps({k: v for k, v in os.environ.items() if k.endswith("BASE_URL") or k == "DRILL_LOG"}), flush=True)
print("api_key=" + "sk-" + "proj-" + "abcdefghijklmnopqrstuvwxyz0123456789", flush=True)
if kind == "children":
    subprocess.Popen([sys.executable, "-c", "import os,time; os.setsid(); time.sleep(300)", "toy-grandchild"])
if kind == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
class H(BaseHTTPRequestHandler):
    def do_GET(self):
        text, status = "", 200
        note(event="user_request", phase="start", id=self.headers["X-Drill-Request"])
        url = os.environ["MODEL_BASE_URL"] + "/ask"
        if kind == "elsewhere":
            url = sys.argv[3]
        head = {"traceparent": self.headers["traceparent"]} if self.headers["traceparent"] else {}
        try:
            for _ in range(2 if kind == "greedy" else 0):
                urllib.request.urlopen(urllib.request.Request(url, b"{}", head), timeout=0.3).close()
            with urllib.request.urlopen(urllib.request.Request(url, b"{}", head), timeout=0.3) as answer:
                text = json.load(answer)["text"]
            if kind == "sick": status = 500
        except OSError:
            text = "an answer of the fallback"
            if kind == "none": status = 502
        body = json.dumps({"text": text}).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *a): pass
def note(**row):
    if kind == "marks":
        with open(os.environ["DRILL_LOG"], "a") as file:
            file.write(json.dumps({"t": datetime.datetime.now(datetime.timezone.utc).isoformat(), **row}) + "\\n")
class S(ThreadingHTTPServer):
    request_queue_size = 128
S(("127.0.0.1", port), H).serve_forever()
"""


def free_ports(count: int) -> list[int]:
    """Find ports of loopback that nobody has."""
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(socket.socket()) for _ in range(count)]
        for sock in held:
            sock.bind(("127.0.0.1", 0))
        return [sock.getsockname()[1] for sock in held]


def alive(pid: int) -> bool:
    """Whether a process is there and not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def connects(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def wait_until(holds: Any, within_s: float = 15.0, what: str = "") -> None:
    give_up = time.monotonic() + within_s
    while time.monotonic() < give_up:
        if holds():
            return
        time.sleep(0.05)
    raise AssertionError(f"not within {within_s} s: {what or holds}")


class Drill:
    """One place to drill in: upstream, agent, plan and policy; `start` runs the command."""

    def __init__(self, folder: Path, state: Path, *, status: int = 200) -> None:
        self.folder = folder
        self.upstream_port, self.agent_port, self.proxy_port = free_ports(3)
        (folder / "agent.py").write_text(AGENT)
        (folder / "upstream.py").write_text(UPSTREAM)
        (folder / "policy.yaml").write_text(POLICY)
        self.env = {**os.environ, "DRILLMASTER_STATE": str(state)}
        self.processes: list[subprocess.Popen[str]] = []
        self.upstream = self._spawn([sys.executable, "upstream.py", str(self.upstream_port), str(status)])
        wait_until(lambda: connects(self.upstream_port), what="the upstream")

    def _spawn(self, argv: list[str], **more: Any) -> "subprocess.Popen[str]":
        process = subprocess.Popen(argv, cwd=self.folder, env=self.env, text=True, **more)
        self.processes.append(process)
        return process

    def agent(self, kind: str = "healthy", *more: str) -> list[str]:
        return [sys.executable, "agent.py", str(self.agent_port), kind, *more]

    def plan(self, *, kind: str | None = "healthy", name: str = "plan.yaml", **over: Any) -> Path:
        """Write a plan; `kind` is the agent's, None: the drill starts none. Keywords replace whole top-level parts."""
        plan: dict[str, Any] = {
            "kind": "plan",
            "drill": "eviction",
            "service": "toy",
            "target": {
                "url": f"http://127.0.0.1:{self.agent_port}/answer?q={{payload}}",
                "payloads": ["one?", "two?"],
                "expect": {"pointer": "/text", "min_chars": 5},
            },
            "traffic": {"every_s": 0.05, "time_limit_s": 1.5},
            "proxy": {"listen": f"127.0.0.1:{self.proxy_port}", "upstream": f"http://127.0.0.1:{self.upstream_port}"},
            "policy": "policy.yaml",
            "phases": {"baseline_s": 1.5, "fault_s": 2, "recovery_s": 1.5},
        }
        if kind is not None:
            plan["worker"] = {"cmd": self.agent(kind), "ready_s": 15}
        plan |= {key: value for key, value in over.items() if value is not None}
        path = self.folder / name
        path.write_text(json.dumps(plan))  # JSON is YAML
        return path

    def command(self, *args: str) -> list[str]:
        return [sys.executable, "-m", "drillmaster", *args]

    def start(self, *args: str) -> "subprocess.Popen[str]":
        return self._spawn(
            self.command("run", "eviction", "plan.yaml", *args),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
        )

    def run(self, *args: str, within_s: float = 45) -> "subprocess.CompletedProcess[str]":
        process = self.start(*args)
        out, err = process.communicate(timeout=within_s)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def verb(self, *args: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            self.command(*args), cwd=self.folder, env=self.env, capture_output=True, text=True, timeout=30
        )

    @property
    def run_dir(self) -> Path:
        return max((self.folder / "runs").iterdir())

    def events(self, file: str, event: str | None = None) -> list[dict[str, Any]]:
        """The whole lines of a run's file so far."""
        path = self.run_dir / file
        text = path.read_text() if path.exists() else ""
        rows = [json.loads(line) for line in text.split("\n")[:-1] if line.strip()]
        return [row for row in rows if event is None or row["event"] == event]

    def wait_for(
        self, event: str, file: str = "events/conductor.jsonl", within_s: float = 20.0, **fields: Any
    ) -> dict[str, Any]:
        found: list[dict[str, Any]] = []

        def seen() -> bool:
            with contextlib.suppress(ValueError, OSError):
                found[:] = [r for r in self.events(file, event) if all(r.get(k) == v for k, v in fields.items())]
            return bool(found)

        wait_until(seen, within_s, what=f"{event} {fields}")
        return found[0]

    def own_processes(self) -> list[int]:
        """Every process that works in this drill's folder, or names it: what a drill could leave behind."""
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) in (os.getpid(), self.upstream.pid):
                continue
            with contextlib.suppress(OSError):
                line = (entry / "cmdline").read_bytes()
                here = str(self.folder).encode()
                if (here in line or os.readlink(entry / "cwd") == str(self.folder)) and alive(int(entry.name)):
                    found.append(int(entry.name))
        return found

    def close(self) -> None:
        """End what is left, by pid."""
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.communicate()
        for pid in self.own_processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def drilling(tmp_path: Path, *, status: int = 200) -> Iterator[Drill]:
    """Lend a drill, and end all of it afterwards. `status` is the real endpoint's to everything but GET /."""
    folder = tmp_path / "toy"
    folder.mkdir()
    # A path that is short enough for sockets: what a killed conductor leaves is in there, and goes with it.
    state = Path(tempfile.mkdtemp(prefix="dm-", dir="/tmp"))
    drill = Drill(folder, state, status=status)
    try:
        yield drill
    finally:
        drill.close()
        shutil.rmtree(state, ignore_errors=True)
