"""The Node client of the page runs as it stands: against a good server, and against every kind of bad one it denies."""

import contextlib
import json
import os
import random
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.guardlab import RETRY, prepared, served, write_guards

pytestmark = pytest.mark.e2e
node_runs = pytest.mark.needs("node")

PAGE = (Path(__file__).parents[2] / "docs/howto/guard-from-another-language.md").read_text("utf-8")
FILES = {code.split()[1]: code for code in re.findall(r"^```js\n(.*?)^```", PAGE, re.S | re.M)}
FACTS = {"source": "pinned-map", "protocol": "http", "method": "GET", "code": 503, "attempt": 1, "elapsed_ms": 5}
ASK = """
import { createInterface } from "node:readline";
import { decide, succeeded } from "./guards.mjs";
import { call } from "./worker.mjs";
for await (const line of createInterface({ input: process.stdin })) {
  const [what, value] = JSON.parse(line);
  const began = performance.now();
  let sent = 0;
  const said =
    what === "call" ? await call(async (n) => (sent += 1, value[n - 1]))
    : what === "succeeded" ? { told: await succeeded("retry", value) }
    : await decide(what, value);
  console.log(JSON.stringify({ ...said, sent, took_ms: performance.now() - began }));
}
"""


class Worker:
    """A Node process that does as it is told, a line at a time."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def ask(self, what: str, value: object) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([what, value]) + "\n")
        self._process.stdin.flush()
        said: dict[str, Any] = json.loads(self._process.stdout.readline())
        return said


@contextlib.contextmanager
def worker(folder: Path, url: str, token: str = "") -> Iterator[Worker]:
    for name, code in {**FILES, "ask.mjs": ASK}.items():
        (folder / name).write_text(code)
    process = subprocess.Popen(
        ["node", "ask.mjs"],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "GUARD_URL": url} | ({"DRILLMASTER_GUARD_TOKEN": token} if token else {}),
    )
    try:
        yield Worker(process)
    finally:
        process.kill()
        process.communicate()


def denied(said: dict[str, Any], within_ms: float = 2_000) -> bool:
    return said["allowed"] is False and said["reason"] == "guard-unavailable" and said["took_ms"] < within_ms


def test_the_page_has_both_files() -> None:
    assert set(FILES) == {"guards.mjs", "worker.mjs"}


@node_runs
def test_a_good_server_is_gone_by_to_the_letter(tmp_path: Path) -> None:
    write_guards(tmp_path / "guards.json", {**RETRY, "base_ms": 1, "cap_ms": 5})
    with served(tmp_path) as server, worker(tmp_path, server.address) as node:
        assert node.ask("retry", FACTS)["reason"] == "pinned-status"
        assert node.ask("retry", {**FACTS, "code": 400})["reason"] == "status-not-retryable"
        assert node.ask("retry", {**FACTS, "prompt": "x"})["reason"] == "facts-unusable"
        assert node.ask("nope", FACTS)["reason"] == "unlisted-guard"
        said = node.ask("call", [503, 503, 200])
        assert (said["code"], said["attempt"], said["sent"]) == (200, 3, 3)
        said = node.ask("call", [503, 503, 503, 503])
        assert (said["reason"], said["sent"]) == ("budget-exhausted", 3)
        said = node.ask("call", [400, 200])
        assert (said["reason"], said["sent"]) == ("status-not-retryable", 1)


@node_runs
def test_a_server_that_is_stopped_or_killed_denies_and_the_worker_sends_nothing_again(tmp_path: Path) -> None:
    with served(tmp_path) as server, worker(tmp_path, server.address) as node:
        assert node.ask("retry", FACTS)["allowed"] is True
        server.process.send_signal(signal.SIGSTOP)
        assert denied(node.ask("retry", FACTS))
        said = node.ask("call", [503, 200])
        assert (said["reason"], said["sent"]) == ("guard-unavailable", 1)
        server.process.send_signal(signal.SIGCONT)
        assert node.ask("retry", FACTS)["allowed"] is True
        server.process.kill()
        server.process.wait(10)
        assert denied(node.ask("retry", FACTS))
        said = node.ask("call", [503, 200])
        assert (said["reason"], said["sent"]) == ("guard-unavailable", 1)


@node_runs
def test_a_good_call_that_is_told_again_gives_back_once(tmp_path: Path) -> None:
    write_guards(tmp_path / "guards.json", {**RETRY, "budget_tokens": 1, "refund": 0.5})
    with served(tmp_path) as server, worker(tmp_path, server.address) as node:
        assert [node.ask("retry", FACTS)["allowed"] for _ in range(2)] == [True, False]
        assert [node.ask("succeeded", {"id": "job-7"})["told"] for _ in range(3)] == [True] * 3
        assert node.ask("retry", FACTS)["reason"] == "retry-budget"  # half a token
        assert node.ask("succeeded", {})["told"] is True
        assert node.ask("retry", FACTS)["allowed"] is True
        assert node.ask("succeeded", {"id": "a.b"})["told"] is False
    with worker(tmp_path, server.address) as node:  # nobody is there
        assert node.ask("succeeded", {})["told"] is False


@node_runs
def test_a_token_that_the_server_does_not_know_denies(tmp_path: Path) -> None:
    right, wrong = "0123456789abcdef" * 2, "fedcba9876543210" * 2
    with served(tmp_path, env={"DRILLMASTER_GUARD_TOKEN": right}) as server:
        for token, allowed in ((right, True), (wrong, False), ("", False)):
            with worker(tmp_path, server.address, token) as node:
                assert node.ask("retry", FACTS)["allowed"] is allowed


YES = b'{"allowed":true,"reason":"pinned-status","wait_ms":0,"left":9}'


def whole(status: int, body: bytes, *fields: str) -> bytes:
    lines = [f"HTTP/1.1 {status} X", f"content-length: {len(body)}", "content-type: application/json", *fields]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def dripping(wire: socket.socket, _: bytes) -> None:
    for byte in whole(200, YES):
        wire.sendall(bytes([byte]))
        time.sleep(0.02)


def redirecting(wire: socket.socket, request: bytes) -> None:
    """Send it to another path, which would say yes."""
    wire.sendall(whole(200, YES) if b" /yes " in request else whole(307, b"", "location: /yes", "connection: close"))


Behave = Callable[[socket.socket, bytes], object]
BAD: dict[str, Behave] = {
    "silent": lambda wire, _: time.sleep(1),
    "dripping": dripping,
    "reset": lambda wire, _: wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0"),
    "half a body": lambda wire, _: wire.sendall(whole(200, YES)[:-10]),
    "no HTTP": lambda wire, _: wire.sendall(YES),
    "a page": lambda wire, _: wire.sendall(whole(200, b"<html>allowed: true</html>")),
    "nothing": lambda wire, _: wire.sendall(whole(200, b"")),
    "null": lambda wire, _: wire.sendall(whole(200, b"null")),
    "another yes": lambda wire, _: wire.sendall(whole(200, b'{"allowed":"true"}')),
    "one": lambda wire, _: wire.sendall(whole(200, b'{"allowed":1}')),
    "a list": lambda wire, _: wire.sendall(whole(200, b"[" + YES + b"]")),
    "another status": lambda wire, _: wire.sendall(whole(201, b'{"allowed":true}')),
    "an error that allows": lambda wire, _: wire.sendall(whole(503, b'{"allowed":true}')),
    "a redirect": redirecting,
}


@contextlib.contextmanager
def bad_server(behave: Behave) -> Iterator[str]:
    """Answer every connection in one wrong way."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    wire, _ = listening.accept()
                except OSError:
                    return
                with wire, contextlib.suppress(OSError):
                    behave(wire, wire.recv(65_536))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            listening.shutdown(socket.SHUT_RDWR)
    thread.join(5)


@node_runs
@pytest.mark.parametrize("how", BAD)
def test_whatever_is_no_clear_yes_is_a_no(how: str, tmp_path: Path) -> None:
    with bad_server(BAD[how]) as url, worker(tmp_path, url) as node:
        said = node.ask("retry", FACTS)
        assert denied(said), said
        said = node.ask("call", [503, 200])
        assert (said["reason"], said["sent"]) == ("guard-unavailable", 1)


@node_runs
def test_the_client_itself_can_say_yes(tmp_path: Path) -> None:
    with bad_server(lambda wire, _: wire.sendall(whole(200, YES))) as url, worker(tmp_path, url) as node:
        assert node.ask("retry", FACTS)["allowed"] is True


WORKER_PAGE = (Path(__file__).parents[2] / "docs/howto/guard-a-worker.md").read_text("utf-8")
DRILLMASTER = "import sys; from drillmaster.cli import main; main(argv=sys.argv[1:])"


def test_the_python_of_the_other_page_decides_writes_and_counts(tmp_path: Path) -> None:
    first, second = re.findall(r"^```python\n(.*?)^```", WORKER_PAGE, re.S | re.M)
    (shown,) = re.findall(r"^```json\n(.*?)^```", WORKER_PAGE, re.S | re.M)
    write_guards(tmp_path / "guards.yaml")  # JSON is YAML
    prepared(tmp_path)
    log = tmp_path / "timeline.jsonl"
    code = (
        f"{first}\nprint([may_call() for _ in range(6)])\n"
        + second.replace("/var/log/guards.jsonl", str(tmp_path / "sampled.jsonl"))
        + "\nprint(may_call())\nimport prometheus_client\nprint(prometheus_client.generate_latest().decode())\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code.replace("sqlite:guards.db", "sqlite:store.db")],
        cwd=tmp_path,
        env={**os.environ, "DRILL_LOG": str(log)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.splitlines()[:2] == ["[True, True, True, True, True, False]", "False"]
    assert (
        'drillmaster_guard_decisions_total{allowed="false",entry="quota",guard="quota",reason="over-burst"} 1.0'
        in ran.stdout
    )
    line = json.loads(log.read_text().splitlines()[-1])
    assert list(line) == list(json.loads(shown))  # what the page shows has the fields that are written
    assert line["reason"] == "over-burst"
    assert [json.loads(one)["allowed"] for one in (tmp_path / "sampled.jsonl").read_text().splitlines() if one] == [
        False
    ]


def test_the_commands_of_the_other_page_go_through_in_their_order(tmp_path: Path) -> None:
    from drillmaster import strict
    from drillmaster.scaffold import blanks, fill

    def run(line: str) -> subprocess.CompletedProcess[str]:
        told = line.replace("drillmaster ", f"{shlex.quote(sys.executable)} -c {shlex.quote(DRILLMASTER)} ", 1)
        return subprocess.run(["bash", "-c", told], cwd=tmp_path, capture_output=True, text=True, timeout=60)

    commands = [
        line
        for block in re.findall(r"^```sh\n(.*?)^```", WORKER_PAGE, re.S | re.M)
        for line in block.splitlines()
        if line
    ]
    init, check, facts, explain = [line for line in commands if "store prepare" not in line]
    assert run(init).returncode == 0
    open_ = run(check)
    assert (open_.returncode, "blanks" in open_.stderr) == (2, True)
    path = tmp_path / "guards.yaml"
    text = path.read_text()
    examples = {p: strict.load(f"v: {e}".encode(), place="x", fmt="yaml")["v"] for p, e in blanks(text).items()}
    path.write_text(fill(text, examples | {"/review_by": "2099-02-28"}))
    assert run(check).returncode == 0
    assert run(facts).returncode == 0
    said = run(explain)
    assert said.returncode == 0
    assert said.stdout.startswith("allowed: within-quota")
    assert "without a store" in said.stderr


def test_a_guard_alone_costs_no_recorder_and_no_server() -> None:
    from drillmaster.guards import names

    modules = ", ".join(f"drillmaster.guards.{name.replace('-', '_')}" for name in names())
    code = f"import sys, {modules}\nprint(*sorted(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    heavy = {"asyncio", "socket", "ssl", "click", "prometheus_client", "drillmaster.timeline", "drillmaster.stores"}
    loaded = set(ran.stdout.split())
    assert not loaded & heavy
    assert not [one for one in loaded if one.startswith("drillmaster.adapters")]


@node_runs
def test_two_hundred_calls_are_decided_alike_for_node_and_for_python(tmp_path: Path) -> None:
    from drillmaster.adapters.worker.guarding import Guarding
    from drillmaster.guards.retry import FailedCall

    draw = random.Random(7)
    asked = [
        {
            "source": draw.choice(["pinned-map", "pinned-map", "pinned-map", "a model"]),
            "protocol": draw.choice(["http", "grpc", "websocket"]),
            "method": draw.choice(["GET", "POST", "BREW"]),
            "code": draw.choice([None, None, 14, 400, 429, 429, 503, 503, 503, 1006, 1013]),
            "attempt": draw.choice([1, 1, 1, 1, 2, 2, 3, 0]),
            "elapsed_ms": draw.choice([0, 10, 10, 10, 29_990, 29_990, 40_000]),
            "asked_wait_ms": draw.choice([None, None, 1_000, 9_000]),
            "idempotency_key": draw.choice(["", "order-17"]),
            "jitter": draw.choice([0, 0.5, 0.25, 1, 1, 2]),
        }
        for _ in range(200)
    ]
    write_guards(tmp_path / "guards.json")
    with served(tmp_path) as server, worker(tmp_path, server.address) as node:
        python = Guarding.open(tmp_path / "guards.json", store=f"sqlite:{tmp_path / 'store.db'}")
        decided = [python.decide("retry", FailedCall(**facts)) for facts in asked]
        told = [node.ask("retry", facts) for facts in asked]
        python.close()
    for facts, one, other in zip(asked, decided, told, strict=True):
        assert (one.allowed, one.reason, one.wait_ms) == (other["allowed"], other["reason"], other["wait_ms"]), facts
    assert len({one.reason for one in decided}) >= 8
