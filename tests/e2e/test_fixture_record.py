"""One exchange with a server on loopback, written down."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from drillmaster.screen import MARK

pytestmark = [pytest.mark.e2e]

TOKEN = "sk" + "-" + "fedcba9876543210fedcba98"


class _Staging(BaseHTTPRequestHandler):
    seen: list[tuple[str, str, bytes]] = []  # noqa: RUF012  # of the one test that reads it

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        self.seen.append((self.path, self.headers.get("authorization") or "", body))
        self._say(
            409,
            "application/json",
            json.dumps({"code": "amount_zero", "echo": self.headers.get("authorization")}).encode(),
        )

    def do_GET(self) -> None:
        if self.path == "/html":
            self._say(500, "text/html", b"<h1>no</h1>")
        elif self.path == "/moved":
            self._say(302, "text/plain", b"", location="http://192.0.2.1/?token=abc")
        elif self.path == "/binary":
            self._say(200, "image/png", b"\x89\xff")
        elif self.path == "/gzip":
            self._say(200, "text/plain", b"x", **{"content-encoding": "gzip"})
        else:
            self._say(200, "application/json", b"x" * (5 << 20))

    def _say(self, status: int, kind: str, body: bytes, **more: str) -> None:
        self.send_response(status)
        for name, value in {
            "content-type": kind,
            "content-length": str(len(body)),
            "set-cookie": "sid=1",
            **more,
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def staging() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Staging)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


def fixture(folder: Path, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "drillmaster", "fixture", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "http_proxy": "http://127.0.0.1:9", **environ},
        timeout=60,
    )


def test_an_exchange_is_written_down_without_its_token(staging: str, tmp_path: Path) -> None:
    (tmp_path / "charge.json").write_text('{"amount": 0}')
    words = ["record", f"{staging}/v1/charges?key=abc", "--method", "POST", "--body", "charge.json", "--by", "Ada"]
    done = fixture(
        tmp_path, *words, "--token-env", "STAGING_TOKEN", "--out", "fixtures/http/charge-409.json", STAGING_TOKEN=TOKEN
    )
    assert done.returncode == 0, done.stderr
    assert _Staging.seen == [("/v1/charges?key=abc", f"Bearer {TOKEN}", b'{"amount": 0}')]
    text = (tmp_path / "fixtures/http/charge-409.json").read_text()
    made = json.loads(text)
    assert TOKEN not in text + done.stdout + done.stderr
    assert made["response"] == {
        "status": 409, "headers": {"content-type": "application/json"}, "json": {"code": "amount_zero", "echo": f"Bearer {MARK}"},
    }  # fmt: skip  # as it is written
    assert made["request"]["path"] == f"/v1/charges?key={MARK}"
    assert made["host"] == "127.0.0.1"
    assert fixture(tmp_path, "check", "fixtures/http/charge-409.json").returncode == 0
    again = fixture(tmp_path, *words, "--out", "fixtures/http/charge-409.json")
    assert again.returncode == 2
    assert "a file that is there" in again.stderr


@pytest.mark.parametrize(("path", "status"), [("/html", 500), ("/moved", 302)])
def test_an_answer_that_is_no_json_is_written_down_too(staging: str, tmp_path: Path, path: str, status: int) -> None:
    done = fixture(tmp_path, "record", staging + path, "--by", "Ada", "--out", "a.json")
    assert done.returncode == 0, done.stderr
    made = json.loads((tmp_path / "a.json").read_text())
    assert made["response"]["status"] == status  # a redirect is an answer; it is not followed
    assert "abc" not in json.dumps(made)


@pytest.mark.parametrize("path", ["/binary", "/gzip", "/huge"])
def test_an_answer_that_cannot_be_screened_is_refused_and_nothing_is_written(
    staging: str, tmp_path: Path, path: str
) -> None:
    done = fixture(tmp_path, "record", staging + path, "--by", "Ada", "--out", "a.json")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "a.json").exists()


def test_nobody_there_is_a_refusal(tmp_path: Path) -> None:
    done = fixture(tmp_path, "record", "http://127.0.0.1:9/", "--by", "Ada", "--out", "a.json")
    assert done.returncode == 2
    assert "wanted a host that answers" in done.stderr


def test_another_host_is_not_asked_without_its_owner_s_leave(tmp_path: Path) -> None:
    done = fixture(tmp_path, "record", "https://staging.example.com/", "--by", "Ada", "--out", "a.json")
    assert done.returncode == 2
    assert "--permit-host staging.example.com" in done.stderr


def test_nothing_to_verify_is_no_pass(tmp_path: Path) -> None:
    assert fixture(tmp_path, "check").returncode == 2
    assert fixture(tmp_path, "check", "gone.json").returncode == 2
    os.mkfifo(tmp_path / "pipe.json")
    assert fixture(tmp_path, "check", "pipe.json").returncode == 2
