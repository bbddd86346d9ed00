"""`drillmaster notify` over real sockets: what a receiver gets, and that it changes nothing of a verdict."""

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook

from drillmaster.clock import ManualClock, parse_rfc3339
from drillmaster.intake.run import open_run
from drillmaster.intake.verdicts import judge_eviction, keep
from drillmaster.passports import judge_run
from drillmaster.timeline import seal_run
from tests.interviewed import POLICY, sealed
from tests.scene import Scene, healthy

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
PATH = "/services/T0000/B0000/hunter2hunter2"


@contextlib.contextmanager
def receiver(*statuses: int) -> Iterator[tuple[str, list[tuple[dict[str, str], bytes]]]]:
    """Answer with these statuses in turn, the last one for ever; and what came."""
    left, came = list(statuses), []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            came.append(({name.lower(): value for name, value in self.headers.items()}, body))
            said = f"no_service {self.path}".encode()
            self.send_response(left.pop(0) if len(left) > 1 else left[0])
            self.send_header("content-length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *args: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}{PATH}", came
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def notify(run: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "drillmaster", "notify", str(run), *words]
    return subprocess.run(argv, capture_output=True, text=True, timeout=90, env={**os.environ, **env}, cwd=run.parent)


@pytest.fixture
def judged(tmp_path: Path) -> Path:
    folder = Scene(healthy).write(tmp_path)
    seal_run(folder, ManualClock())
    run = open_run(folder)
    keep(judge_eviction(run, folder / "policy.yaml", now_ns=run.started_wall_ns + run.end_ns), folder)
    return folder


def test_both_receivers_get_it_and_no_address_is_printed(judged: Path) -> None:
    before = (judged / "verdict.json").read_bytes()
    with receiver(200) as (slack, at_slack), receiver(503, 200) as (hook, at_hook):
        words = (
            "--slack-env",
            "S",
            "--webhook-env",
            "H",
            "--webhook-secret-env",
            "K",
            "--link",
            "https://ci.example/1",
        )
        done = notify(judged, *words, S=slack, H=hook, K=SECRET)
    assert done.returncode == 0, done.stderr
    ((_, body),) = at_slack
    assert json.loads(body)["blocks"][0]["text"]["text"].startswith("✅ PASS: eviction")
    assert len(at_hook) == 2  # turned away once, and known again by its identifier
    assert at_hook[0][0]["webhook-id"] == at_hook[1][0]["webhook-id"]
    assert Webhook(SECRET).verify(at_hook[1][1], at_hook[1][0])["data"]["status"] == "pass"
    assert "hunter2" not in done.stdout + done.stderr
    assert (judged / "verdict.json").read_bytes() == before


def test_one_that_is_not_taken_is_shown_and_the_other_is_sent(judged: Path) -> None:
    with receiver(404) as (slack, _), receiver(200) as (hook, at_hook):
        words = ("--slack-env", "S", "--webhook-env", "H", "--webhook-secret-env", "K", "--json")
        done = notify(judged, *words, S=slack, H=hook, K=SECRET)
    said = json.loads(done.stdout)
    assert done.returncode == 2
    assert said["status"] == "pass"  # what the gate said
    assert [(one["to"], one["ok"]) for one in said["sent"]] == [("slack", False), ("webhook", True)]
    assert "NOT SENT: status 404" in done.stderr
    assert "hunter2" not in done.stdout + done.stderr
    assert len(at_hook) == 1


def test_a_variable_that_is_not_set_is_named_and_stops_no_other(judged: Path) -> None:
    with receiver(200) as (hook, at_hook):
        done = notify(
            judged, "--slack-env", "NOT_SET", "--webhook-env", "H", "--webhook-secret-env", "K", H=hook, K=SECRET
        )
    assert done.returncode == 2
    assert "$NOT_SET: found nothing" in done.stderr
    assert len(at_hook) == 1


def test_a_run_that_is_not_there_is_told_as_refused(tmp_path: Path) -> None:
    with receiver(200) as (slack, came):
        done = notify(tmp_path / "20261204T090000Z-1a2b", "--slack-env", "S", S=slack)
    assert done.returncode == 0
    body = json.loads(came[0][1])
    assert body["blocks"][0]["text"]["text"].startswith("⛔ REFUSED: matrix")
    assert "found no such run" in body["blocks"][1]["text"]["text"]


def test_a_verdict_on_other_evidence_is_told_as_none(judged: Path) -> None:
    verdict = json.loads((judged / "verdict.json").read_text())
    (judged / "verdict.json").write_text(json.dumps({**verdict, "evidence_digest": "sha256:" + "0" * 64}))
    said = json.loads(notify(judged, "--slack-env", "S", "--gate", "eviction", "--dry-run", "--json").stdout)
    assert said["status"] == "refused"
    assert "on other evidence" in said["would_send"]["slack"]["blocks"][1]["text"]["text"]


def test_a_dry_run_sends_nothing_and_shows_both(judged: Path) -> None:
    with receiver(200) as (slack, came):
        done = notify(judged, "--slack-env", "S", "--webhook-env", "H", "--dry-run", "--json", S=slack)
    said = json.loads(done.stdout)
    assert (done.returncode, came) == (0, [])
    assert set(said["would_send"]) == {"slack", "webhook"}


def test_a_receiver_that_is_not_there_is_shown(judged: Path) -> None:
    with receiver(200) as (slack, _):
        pass
    done = notify(judged, "--slack-env", "S", S=slack)
    assert done.returncode == 2
    assert "connection refused" in done.stderr


def test_the_verdict_of_an_interview_is_told_as_well(tmp_path: Path) -> None:
    folder, policy = sealed(tmp_path), tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    now_ns = parse_rfc3339("2026-12-01T08:00:00Z")
    assert now_ns is not None
    keep(judge_run(folder, policy, now_ns=now_ns).verdict, folder)
    done = notify(folder, "--slack-env", "S", "--gate", "interview", "--dry-run", "--json")
    said = json.loads(done.stdout)
    heading = said["would_send"]["slack"]["blocks"][0]["text"]["text"]
    assert f"{said['status'].upper()}: interview" in heading


@pytest.mark.parametrize(
    "link", ["ci.example/1", "https://ada:hunter2hunter2@ci.example/1", "https://ci.example/1|x> <!channel"]
)
def test_what_is_no_link_is_refused(judged: Path, link: str) -> None:
    done = notify(judged, "--slack-env", "S", "--link", link, "--dry-run")
    assert done.returncode == 2
    assert "wanted an address" in done.stderr
    assert "hunter2" not in done.stderr
