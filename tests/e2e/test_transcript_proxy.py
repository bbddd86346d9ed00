"""A proxy that records missions: each exchange is told as its client had it, no other one is, and no secret is."""

import contextlib
import gzip
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import msgspec
import pytest

from drillmaster.transcripts import read_census, read_mission
from drillmaster.transcripts.exchanges import exchanges
from tests.e2e.replaylab import RUN, Folder, Upstream
from tests.e2e.secretlab import SECRETS, find, spread

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(60)]
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


class _Packed(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        coding = self.path.rpartition("/")[2]
        data = gzip.compress(b'{"echo":' + body + b"}") if coding == "gzip" else b"\x1b\x07 packed by another"
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-encoding", coding)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def packing() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Packed)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@contextlib.contextmanager
def proxy(folder: Folder, upstream: str, *, transcripts: str | None = "transcripts/proxy.ndjson") -> Iterator[str]:
    """A proxy of its own process; its URL. At the end all that was over is on the disk."""
    events = folder.path / "events" / "proxy.jsonl"
    settings = {
        "port": 0,
        "upstream": upstream,
        "events": str(events),
        "run": RUN,
        "transcripts": None if transcripts is None else str(folder.path / transcripts),
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "drillmaster.proxy", json.dumps(settings)],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        until = time.monotonic() + 10
        port = None
        while port is None and time.monotonic() < until and process.poll() is None:
            if events.exists():
                for line in events.read_bytes().splitlines():
                    started = msgspec.json.decode(line)
                    if started.get("event") == "proxy_started":
                        port = int(str(started["listen"]).rpartition(":")[2])
            time.sleep(0.02)
        assert port is not None, process.communicate()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)
        assert process.stderr is not None
        process.stderr.close()


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "runs")


ASKED = {"model": "small", "stream": True, "messages": [{"role": "user", "content": "Refund order #17"}]}


def test_each_exchange_of_a_mission_is_told_and_no_other_one(folder: Folder) -> None:
    upstream = Upstream(pace_s=0.02)
    folder.events.write("mission_started", mission="m2aaaa", flow="f", entry="http", due_ns=0, slot=0, trace=TRACE)
    try:
        with proxy(folder, upstream.url) as url, httpx.Client(base_url=url, trust_env=False) as client:
            for headers in (
                {"X-Drill-Mission": "m1aaaa"},
                {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"},
                {},
                {"X-Drill-Mission": "../etc"},
            ):
                for _ in range(2):
                    assert client.post("/v1/chat/completions", json=ASKED, headers=headers).status_code == 200
            client.post("/tool/refund", json={"order": 17}, headers={"X-Drill-Mission": "m1aaaa"})
    finally:
        upstream.close()
    census = read_census(folder.path, None, {"m1aaaa": 1, "m2aaaa": 1, "m3aaaa": 1}, run=RUN)
    assert (census.complete, census.by_proxy, census.strangers, census.spoilt) == (2, 2, 0, 0)
    assert [(one.mission, one.why) for one in census.lacking] == [("m3aaaa", "missing")]
    found = read_mission(folder.path, None, "m1aaaa", run=RUN)
    assert found is not None
    (first, second, tool) = exchanges(found)
    assert (first.method, first.path, first.asked, first.status, first.whole) == (
        "POST",
        "/v1/chat/completions",
        ASKED,
        200,
        True,
    )
    assert len(first.pieces) >= 6
    assert 80 <= first.pieces[-1][0] - first.pieces[0][0] <= 2_000  # the pace
    assert b"[DONE]" in second.pieces[-1][1] or b"[DONE]" in b"".join(data for _, data in second.pieces)
    assert json.loads(b"".join(data for _, data in tool.pieces))["order"] == 17
    by_trace = read_mission(folder.path, None, "m2aaaa", run=RUN)
    assert by_trace is not None
    assert (len(by_trace.parts), by_trace.defects) == (2, ())


def test_a_packed_answer_is_told_unpacked_or_not_at_all(folder: Folder) -> None:
    secret = SECRETS["anthropic"]
    with packing() as upstream, proxy(folder, upstream) as url, httpx.Client(base_url=url, trust_env=False) as client:
        assert (
            client.post("/x/gzip", json={"key": secret}, headers={"X-Drill-Mission": "m1"}).json()["echo"]["key"]
            == secret
        )
        packed = {"X-Drill-Mission": "m3", "Content-Encoding": "gzip", "Content-Type": "application/json"}
        client.post("/x/gzip", content=gzip.compress(json.dumps({"key": secret}).encode()), headers=packed)
        with contextlib.suppress(httpx.DecodingError):
            client.post("/x/br", json={"key": secret}, headers={"X-Drill-Mission": "m2"})
    found = read_mission(folder.path, None, "m1", run=RUN)
    assert found is not None
    (one,) = exchanges(found)
    assert json.loads(one.pieces[0][1]) == {"echo": {"key": "*" * len(secret)}}
    assert "content-encoding" not in dict(one.headers)
    other = read_mission(folder.path, None, "m2", run=RUN)
    assert other is not None
    (two,) = exchanges(other)
    assert (b"".join(data for _, data in two.pieces), two.whole) == (b"", False)
    third = read_mission(folder.path, None, "m3", run=RUN)
    assert third is not None
    assert exchanges(third)[0].asked == {"key": "*" * len(secret)}
    assert find(folder.path) == []


def test_no_planted_secret_is_in_what_the_proxy_wrote(folder: Folder) -> None:
    said = "\n".join(sentence for _, sentence in spread())
    upstream = Upstream(
        pace_s=0.0, words=[said[at : at + 5] for at in range(0, len(said), 5)], secret=SECRETS["github"]
    )
    headers = {
        "Authorization": f"Bearer {SECRETS['openai']}",
        "X-Api-Key": SECRETS["api key field"],
        "Cookie": f"a={SECRETS['cookie']}",
    }
    try:
        with proxy(folder, upstream.url) as url, httpx.Client(base_url=url, trust_env=False) as client:
            for number, (_, sentence) in enumerate(spread()):
                asked = {**ASKED, "messages": [{"role": "user", "content": sentence}]}
                query = f"?key={SECRETS['google']}" if number % 2 else ""
                client.post(
                    f"/v1/chat/completions{query}", json=asked, headers={**headers, "X-Drill-Mission": f"m{number}"}
                )
            client.post("/tool/refund", json={"order": 1, "note": said}, headers={**headers, "X-Drill-Mission": "m0"})
    finally:
        upstream.close()
    census = read_census(folder.path, None, {f"m{n}": 1 for n in range(len(SECRETS))}, run=RUN)
    assert census.complete == len(SECRETS)
    assert find(folder.path) == []


def test_an_answer_that_was_cut_is_told_as_that(folder: Folder) -> None:
    upstream = Upstream(pace_s=0.05)
    try:
        with proxy(folder, upstream.url) as url:
            with httpx.stream(
                "POST", f"{url}/v1/chat/completions", json=ASKED, headers={"X-Drill-Mission": "m1"}, trust_env=False
            ) as answer:
                next(answer.iter_raw())
            time.sleep(0.3)
    finally:
        upstream.close()
    found = read_mission(folder.path, None, "m1", run=RUN)
    assert found is not None
    (one,) = exchanges(found)
    assert (one.whole, one.error, found.parts[0].ok, found.defects) == (False, "client_gone", False, ())


def test_a_folder_that_is_not_there_is_refused_before_anything_is_served(folder: Folder) -> None:
    with (
        pytest.raises(AssertionError, match="no such file or folder"),
        proxy(folder, "http://127.0.0.1:9", transcripts="nowhere/proxy.ndjson"),
    ):
        pass
