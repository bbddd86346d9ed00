"""An agent that writes transcripts, the model and tool that it asks, and a run's folder with what came of it.

The agent is a program of its own (`python -m tests.e2e.replaylab`): HTTP on one port, its WebSocket twin on another. `VARIANT`
makes it another agent than the one that was recorded.
"""

import contextlib
import json
import os
import re
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import msgspec
from websockets.sync.client import connect
from websockets.sync.server import ServerConnection, serve

from drillmaster.adapters.worker import transcript
from drillmaster.adapters.worker.tool_attempts import tool_call
from drillmaster.clock import SystemClock
from drillmaster.evidence import Manifest
from drillmaster.timeline import Writer, seal_run
from drillmaster.transcripts import read_folder

ROOT = Path(__file__).resolve().parent.parent.parent
RUN = "20261204T160000Z-1a2b"
WORDS = ("I ", "will ", "refund ", "order ", "#17", ".")


class Upstream:
    """A model that streams words at a pace, and a refund tool; both count how often they are asked."""

    def __init__(
        self, *, pace_s: float = 0.03, tool_fails: int = 0, words: Sequence[str] = WORDS, secret: str = ""
    ) -> None:
        upstream = self
        self.asked: list[str] = []
        self._fails = tool_fails

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                upstream.asked.append(self.path)
                if self.path.startswith("/tool/"):
                    if upstream._fails:
                        upstream._fails -= 1
                        self._whole(503, {"error": "busy"})
                    else:
                        self._whole(
                            200,
                            {
                                "refunded": 20,
                                "order": json.loads(body)["order"],
                                "id": str(uuid.uuid4()),
                                "note": secret,
                            },
                        )
                    return
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.send_header("transfer-encoding", "chunked")
                if secret:
                    self.send_header("set-cookie", f"session={secret}")
                self.end_headers()
                name = f"chatcmpl-{uuid.uuid4().hex}"
                for word in words:
                    time.sleep(pace_s)
                    delta = {"id": name, "choices": [{"index": 0, "delta": {"content": word}, "finish_reason": None}]}
                    self._event(json.dumps(delta))
                end = {"id": name, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
                self._event(json.dumps(end))
                self._event("[DONE]")
                self.wfile.write(b"0\r\n\r\n")

            def _event(self, text: str) -> None:
                data = f"data: {text}\n\n".encode()
                self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
                self.wfile.flush()

            def _whole(self, status: int, value: dict[str, Any]) -> None:
                data = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


# -- the agent --


def _think(prompt: str, base: str, variant: str, key: str) -> str:
    """Ask the model, as a stream, and record every byte of it as it comes."""
    said = transcript.current()
    url = f"{base}/v1/chat/completions"
    if variant == "another-prompt":
        prompt = prompt.replace("Refund", "Reimburse")
    asked = {
        "model": "small",
        "stream": True,
        "messages": [{"role": "user", "content": prompt}],
        "user": str(uuid.uuid4()),
    }
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    call = said.model_request(asked, url=url, headers=headers)
    text = ""
    with httpx.stream("POST", url, json=asked, headers=headers, trust_env=False, timeout=10) as answer:
        with said.stream(
            "model_response", call, status=answer.status_code, headers=list(answer.headers.items())
        ) as stream:
            whole = b""
            for piece in answer.iter_bytes():
                stream.piece(piece)
                whole += piece
        if answer.status_code != 200:
            raise RuntimeError(whole.decode()[:500])
    for line in whole.decode().splitlines():
        if line.startswith("data: {"):
            text += json.loads(line[6:])["choices"][0]["delta"].get("content") or ""
    return text


def _refund(order: int, base: str, variant: str) -> Any:
    said = transcript.current()
    url = f"{base}/tool/{'credit' if variant == 'another-tool' else 'refund'}"
    arguments = {"order": order + (variant == "another-order"), "amount": 20, "key": str(uuid.uuid4())}
    name = url.rpartition("/")[2]
    for attempt in tool_call(name, attempts=3):
        with attempt:
            call = said.tool_call(name, arguments, url=url, method="POST", body=json.dumps(arguments))
            answer = httpx.post(url, json=arguments, trust_env=False, timeout=10)
            said.tool_result(
                call,
                ok=answer.status_code == 200,
                status=answer.status_code,
                headers=list(answer.headers.items()),
                body=answer.content,
            )
            answer.raise_for_status()
    return answer.json()


def _handle(body: bytes, base: str, variant: str, key: str) -> tuple[int, dict[str, Any]]:
    prompt = json.loads(body)["history"][-1]["content"]
    if variant == "broken":
        return 500, {"error": "internal error"}
    text = _think(prompt, base, variant, key)
    order = re.search(r"#(\d+)", prompt)
    done = _refund(int(order[1]), base, variant) if order else None
    if variant == "other-words":
        text = text.replace("refund", "not refund")
    return 200, {"text": text, "refund": done, "request_id": str(uuid.uuid4()), "took_ms": time.monotonic_ns() % 1_000}


def agent() -> None:
    """Serve until stdin ends; print both ports."""
    base, variant, key = os.environ["UPSTREAM"], os.environ.get("VARIANT", ""), os.environ.get("MODEL_KEY", "none")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            with transcript.mission(self.headers) as said:
                said.user(body, method="POST", url=self.path, headers=list(self.headers.items()))
                try:
                    status, reply = _handle(body, base, variant, key)
                except Exception as error:
                    status, reply = 502, {"error": str(error)[:600]}
                data = json.dumps(reply).encode()
                said.answer(data, status=status, headers={"content-type": "application/json"})
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    def talk(socket: ServerConnection) -> None:
        assert socket.request is not None
        with transcript.mission(dict(socket.request.headers.raw_items()), entry="websocket") as said:
            for message in socket:
                data = message.encode() if isinstance(message, str) else message
                said.user(data, url=socket.request.path, headers=list(socket.request.headers.raw_items()))
                _, reply = _handle(data, base, variant, key)
                with said.stream("answer") as stream:
                    for word in reply["text"].split(" "):
                        frame = json.dumps({"type": "word", "text": word + " "})
                        stream.piece(frame)
                        socket.send(frame)
                    frame = json.dumps({"type": "done", "refund": reply["refund"]})
                    stream.piece(frame)
                    socket.send(frame)

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    threading.Thread(target=http.serve_forever, daemon=True).start()
    twin = serve(talk, "127.0.0.1", 0)
    threading.Thread(target=twin.serve_forever, daemon=True).start()
    print(http.server_port, twin.socket.getsockname()[1], flush=True)
    sys.stdin.read()


class Agent:
    """The program under way."""

    def __init__(self, process: "subprocess.Popen[str]", http: int, twin: int) -> None:
        self.process = process
        self.url = f"http://127.0.0.1:{http}"
        self.twin = f"http://127.0.0.1:{twin}"


@contextlib.contextmanager
def running(
    upstream: str, folder: Path, *, variant: str = "", run: str = RUN, log: Path | None = None, key: str = "none"
) -> Iterator[Agent]:
    """An agent that asks `upstream` and writes its transcripts into `folder`."""
    environ = {
        **os.environ,
        "UPSTREAM": upstream,
        "VARIANT": variant,
        "MODEL_KEY": key,
        "DRILL_TRANSCRIPTS": str(folder),
        "DRILL_RUN": run,
        **({"DRILL_LOG": str(log)} if log is not None else {}),
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.e2e.replaylab"],
        cwd=ROOT,
        env=environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdin is not None
    try:
        http, twin = process.stdout.readline().split()
        yield Agent(process, int(http), int(twin))
    finally:
        with contextlib.suppress(OSError):
            process.stdin.close()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


class Folder:
    """A run's folder, as a conductor and a driver of missions would leave it."""

    def __init__(self, runs: Path, *, permit: dict[str, Any] | None = None) -> None:
        self.path = runs / RUN
        (self.path / "events").mkdir(parents=True)
        (self.path / "transcripts").mkdir()
        clock = SystemClock()
        self._zero_ns = clock.mono_ns()
        manifest = Manifest(
            run=RUN, drill="friday", service="desk", started_at="2026-12-04T16:00:00.000000000Z", mono0_ns=str(self._zero_ns),
            seed=7, plan={"target": {"url": "http://127.0.0.1/", "permit": permit}}, plan_sha256="0" * 64, policy_file="p",
            policy_sha256="0" * 64, payload_sha256="0" * 64, versions={}, seats={},
            phases={"baseline_s": 1.0, "fault_s": 1.0, "recovery_s": 1.0}, fault={"tag": "flags"}, time_limit_s=30.0, every_s=1.0,
        )  # fmt: skip  # one value
        (self.path / "manifest.json").write_bytes(msgspec.json.encode(manifest))
        self.events = Writer(self.path / "events" / "missions.jsonl", clock, self._zero_ns)

    @property
    def transcripts(self) -> Path:
        return self.path / "transcripts"

    def ask(
        self, agent: Agent, mission: str, prompts: Sequence[str], *, headers: dict[str, str] | None = None
    ) -> list[httpx.Response]:
        """A mission over HTTP, and what a driver writes of it."""
        said = []
        self.events.write("mission_started", mission=mission, flow="refund", entry="http", due_ns=0, slot=0)
        for number, prompt in enumerate(prompts):
            body = {"user_id": "u-1", "history": [{"role": "user", "content": prompt}]}
            answer = httpx.post(
                f"{agent.url}/agent/mission",
                json=body,
                headers={"X-Drill-Mission": mission, **(headers or {})},
                trust_env=False,
                timeout=20,
            )
            said.append(answer)
            self._step(mission, number, answer.status_code)
        self.events.write(
            "mission_ended",
            mission=mission,
            flow="refund",
            entry="http",
            result="ok",
            why="",
            due_ns=0,
            end_ns=1,
            steps=len(prompts),
        )
        return said

    def talk(self, agent: Agent, mission: str, prompts: Sequence[str]) -> None:
        """The same over the WebSocket."""
        self.events.write("mission_started", mission=mission, flow="refund", entry="websocket", due_ns=0, slot=0)
        url = agent.twin.replace("http", "ws") + "/agent/ws"
        with connect(url, additional_headers={"X-Drill-Mission": mission}, proxy=None) as socket:
            for number, prompt in enumerate(prompts):
                socket.send(json.dumps({"history": [{"role": "user", "content": prompt}]}))
                while json.loads(socket.recv())["type"] != "done":
                    pass
                self._step(mission, number, 101)
        self._settled(mission)
        self.events.write(
            "mission_ended",
            mission=mission,
            flow="refund",
            entry="websocket",
            result="ok",
            why="",
            due_ns=0,
            end_ns=1,
            steps=1,
        )

    def _settled(self, mission: str) -> None:
        """Wait for the worker to have written the end: it learns of the close behind us."""
        until = time.monotonic() + 5
        while time.monotonic() < until:
            found = read_folder(self.transcripts, mission)
            if found is not None and all(part.ended for part in found.parts):
                return
            time.sleep(0.02)

    def _step(self, mission: str, number: int, status: int) -> None:
        self.events.write(
            "step_ended",
            mission=mission,
            step=number,
            name="ask",
            status=status,
            result="ok",
            due_ns=0,
            sent_ns=1,
            first_ns=2,
            end_ns=3,
        )

    def seal(self) -> None:
        self.events.close()
        seal_run(self.path, SystemClock())


if __name__ == "__main__":
    agent()
