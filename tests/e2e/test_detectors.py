"""The listener as a process: who is heard, what is refused, and that nothing of a sender's brings it down."""

import base64
import hashlib
import hmac
import json
import os
import resource
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from slack_sdk.webhook import WebhookClient
from standardwebhooks.webhooks import Webhook

from drillmaster.rules.alerts import Injection, Looked, Wanted, match
from drillmaster.verdict import Exact
from tests.e2e.alertlab import SECRET, Listening, listening, post, until

pytestmark = pytest.mark.e2e

DELIVERIES = Path(__file__).parent.parent / "detectors" / "deliveries"
PAGER = "a-signing-secret-of-the-test-0123456789"
OWN = "whsec_" + base64.b64encode(b"0123456789abcdef0123456789abcdef").decode()
FIND = {"pattern": r"\[(?P<state>FIRING|RESOLVED)[^\]]*\] (?P<rule>\w+)[^\n]*?(?P<severity>sev\d)"}
RECEIVERS: list[dict[str, Any]] = [
    {"form": "alertmanager", "name": "am", "path": "/alerts", "secret_env": "ALERTS"},
    {"form": "alertmanager", "name": "hidden", "path": "/hidden", "secret_env": "ALERTS", "auth": "path"},
    {"form": "grafana", "name": "grafana", "path": "/grafana", "secret_env": "ALERTS"},
    {"form": "pagerduty", "name": "pager", "path": "/pager", "secret_env": "PAGER"},
    {"form": "slack", "name": "chat", "path": "/services", "secret_env": "ALERTS", "find": FIND},
    {"form": "standard", "name": "own", "path": "/own", "secret_env": "OWN"},
    {"form": "log", "name": "app", "file": "app.log", "find": {"pattern": r"alert=(?P<rule>\w+) (?P<severity>\w+)"}},
    {"form": "file", "name": "flag", "file": "flag", "rule": "ToolFailures", "severity": "sev2"},
]
BEARER = {"Authorization": f"Bearer {SECRET}"}


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[Listening]:
    with listening(tmp_path, RECEIVERS, PAGER=PAGER, OWN=OWN) as found:
        yield found


def delivery(name: str) -> bytes:
    return DELIVERIES.joinpath(name).read_bytes()


def signed(body: bytes, key: str = PAGER) -> dict[str, str]:
    mac = hmac.new(key.encode(), body, hashlib.sha256).hexdigest()
    return {"X-PagerDuty-Signature": f"v1={'0' * 64},v1={mac}"}


def test_each_form_is_heard_by_its_own_secret(listener: Listening) -> None:
    body = delivery("pagerduty-acknowledged.json")
    assert post(f"{listener.url}/alerts", delivery("alertmanager.json"), BEARER) == 200
    assert post(f"{listener.url}/hidden/{SECRET}", delivery("alertmanager.json")) == 200
    assert post(f"{listener.url}/grafana", delivery("grafana.json"), BEARER) == 200
    assert post(f"{listener.url}/pager", body, signed(body)) == 200
    assert post(f"{listener.url}/services/{SECRET}", delivery("slack-blocks.json")) == 200
    rows = listener.rows("alert_received")
    assert [row["receiver"] for row in rows] == ["am", "am", "hidden", "hidden", "grafana", "chat"]
    assert [row["receiver"] for row in listener.rows("alert_acknowledged")] == ["pager"]
    assert [row["receiver"] for row in listener.rows("detector_ready")] == [one["name"] for one in RECEIVERS]
    assert listener.quit() == 0


def test_slacks_own_client_and_the_reference_signer_are_heard(listener: Listening) -> None:
    answer = WebhookClient(f"{listener.url}/services/{SECRET}").send(
        text="[FIRING:1] ToolFailures sev2",
        blocks=[{"type": "section", "text": {"type": "mrkdwn", "text": "*ToolFailures*"}}],
    )
    assert (answer.status_code, answer.body) == (200, "ok")
    document = {"type": "alert.firing", "timestamp": "2026-12-01T09:00:00Z", "data": {"rule": "R", "severity": "sev2"}}
    body = json.dumps(document)
    now = datetime.now(UTC)
    headers = {
        "webhook-id": "msg_1",
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(OWN).sign("msg_1", now, body),
    }
    assert post(f"{listener.url}/own", body.encode(), headers) == 200
    old = {**headers, "webhook-timestamp": "1700000000"}
    old["webhook-signature"] = Webhook(OWN).sign("msg_1", datetime.fromtimestamp(1_700_000_000, UTC), body)
    assert post(f"{listener.url}/own", body.encode(), old) == 401  # a signed one of long ago
    assert [row["rule"] for row in listener.rows("alert_received")] == ["ToolFailures", "R"]


def test_who_is_not_known_is_401_and_what_is_no_delivery_400(listener: Listening) -> None:
    body, pager = delivery("alertmanager.json"), delivery("pagerduty-acknowledged.json")
    url = listener.url
    for path, content, headers in [
        ("/alerts", body, {}),
        ("/alerts", body, {"Authorization": f"Basic {SECRET}"}),
        ("/alerts", body, {"Authorization": f"Bearer {SECRET}x"}),
        (f"/alerts/{SECRET}", body, {}),
        ("/hidden", body, BEARER),
        ("/hidden/wrong", body, {}),
        ("/pager", pager, {}),
        ("/pager", pager, signed(pager + b" ")),
        ("/pager", pager, signed(pager, "another-secret-of-the-test-0123456789")),
        ("/services", b"{}", BEARER),
        ("/own", b"{}", {}),
    ]:
        assert post(url + path, content, headers) == 401, path
    for content in (
        b"",
        b"{",
        b"[]",
        b"null",
        b"{}",
        b"\xff",
        b'{"version":"4","version":"4"}',
        b"[" * 100_000,
        b'{"a":NaN}',
    ):
        assert post(f"{url}/alerts", content, BEARER) == 400, content[:20]
    assert post(f"{url}/pager", b"{}", signed(b"{}")) == 400
    assert post(f"{url}/alerts", body, {**BEARER, "Content-Encoding": "gzip"}) == 400
    assert post(f"{url}/nowhere", body, BEARER) == 404
    assert post(f"{url}/alerts", b"x" * (1 << 20) + b"x", BEARER) == 413
    state = listener.state()
    assert not any(row["event"] in ("alert_received", "alert_acknowledged") for row in listener.rows())
    assert {row["status"] for row in listener.rows("delivery_refused")} == {400, 401}
    assert state["receivers"]["am"]["refused"] == 14 and not state["evidence_lost"]
    said = listener.events.read_text() + listener.log.read_text()
    assert SECRET not in said and PAGER not in said and OWN not in said


def raw(listener: Listening, *pieces: bytes, wait_s: float = 0.0) -> bytes:
    host, port = listener.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=15) as sock:
        for piece in pieces:
            sock.sendall(piece)
            time.sleep(wait_s)
        sock.shutdown(socket.SHUT_WR)
        found = b""
        try:
            while piece := sock.recv(65_536):
                found += piece
        except ConnectionResetError:
            pass
        return found


def request(body: bytes, *, more: bytes = b"") -> bytes:
    head = b"POST /alerts HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n" % SECRET.encode()
    return head + more + b"Content-Length: %d\r\n\r\n" % len(body) + body


def test_any_cutting_chunks_and_two_in_a_row_are_heard(listener: Listening) -> None:
    whole = request(delivery("alertmanager.json"))
    raw(listener, *[whole[at : at + 97] for at in range(0, len(whole), 97)], wait_s=0.001)
    until(lambda: len(listener.rows("alert_received")) == 2)
    body = delivery("alertmanager.json")
    head = (
        b"POST /alerts HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nTransfer-Encoding: chunked\r\n\r\n"
        % SECRET.encode()
    )
    raw(listener, head + b"%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n", wait_s=0.2)
    until(lambda: len(listener.rows("alert_received")) == 4)
    raw(listener, whole + whole, wait_s=0.2)
    until(lambda: len(listener.rows("alert_received")) == 8)


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET\r\n\r\n",
        b"POST /alerts HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST /alerts HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST /alerts HTTP/1.1\r\nA: " + b"x" * 70_000 + b"\r\n\r\n",
    ],
)
def test_what_is_no_request_is_answered_or_closed_and_never_500(sent: bytes, listener: Listening) -> None:
    found = raw(listener, sent, wait_s=0.1)
    assert found == b"" or found.startswith(b"HTTP/1.1 4")
    assert listener.state()["ready"]


def test_who_dawdles_is_closed_and_the_others_are_heard(listener: Listening) -> None:
    host, port = listener.url.removeprefix("http://").split(":")
    began_s = time.monotonic()
    with socket.create_connection((host, int(port)), timeout=30) as slow:
        slow.sendall(request(delivery("alertmanager.json"))[:-10])
        assert post(f"{listener.url}/alerts", delivery("alertmanager.json"), BEARER) == 200
        assert slow.recv(1) == b""
    assert 5 < time.monotonic() - began_s < 15
    assert len(listener.rows("alert_received")) == 2


ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=8) | st.sampled_from(["firing", "resolved", "4"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "version",
                    "alerts",
                    "labels",
                    "status",
                    "startsAt",
                    "endsAt",
                    "event",
                    "data",
                    "text",
                    "blocks",
                    "type",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(ANY)
def test_no_document_is_a_500(listener: Listening, document: Any) -> None:
    body = json.dumps(document).encode()
    for path, headers in (
        ("/alerts", BEARER), ("/grafana", BEARER), ("/pager", signed(body)), (f"/services/{SECRET}", {}),
    ):  # fmt: skip  # one receiver a piece
        assert post(listener.url + path, body, headers) in (200, 400)


def test_a_line_of_a_log_and_a_file_are_alerts_wherever_the_log_moves(listener: Listening, tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    with log.open("a") as file:
        file.write("alert=One sev2\n")
    until(lambda: len(listener.rows("alert_received")) == 1)
    log.rename(tmp_path / "app.log.1")
    with log.open("a") as file:
        file.write("nothing\nalert=Two sev3\n")
    until(lambda: len(listener.rows("alert_received")) == 2)
    (tmp_path / "flag").touch()
    until(lambda: len(listener.rows("alert_received")) == 3)
    (tmp_path / "flag").unlink()
    until(lambda: len(listener.rows("alert_received")) == 4)
    rows = listener.rows("alert_received")
    assert [(row["rule"], row["state"]) for row in rows] == [
        ("One", "firing"),
        ("Two", "firing"),
        ("ToolFailures", "firing"),
        ("ToolFailures", "resolved"),
    ]


def test_a_pagers_acknowledgement_is_that_of_the_group_that_alertmanager_opened(listener: Listening) -> None:
    injected_ns = listener.ns()
    now = datetime.now(UTC).isoformat()
    document = json.loads(delivery("alertmanager.json"))
    document["alerts"] = [
        {**document["alerts"][0], "startsAt": now, "labels": {"alertname": "ToolFailures", "severity": "sev2"}}
    ]
    assert post(f"{listener.url}/alerts", document, BEARER) == 200
    time.sleep(0.3)
    event = json.loads(delivery("pagerduty-acknowledged.json"))
    event["event"]["data"]["incident_key"] = hashlib.sha256(document["groupKey"].encode()).hexdigest()
    event["event"]["occurred_at"] = datetime.now(UTC).isoformat()
    body = json.dumps(event).encode()
    assert post(f"{listener.url}/pager", body, signed(body)) == 200
    alerts, acks = listener.told()
    found = match(
        alerts,
        acks,
        Injection(run="R", window="w", injected_ns=injected_ns),
        Wanted(rule="ToolFailures", least="sev2"),
        Looked(from_ns=0, until_ns=listener.ns()),
    )
    assert isinstance(found.delay, Exact) and isinstance(found.ack, Exact)
    assert 0.3 <= found.ack.value < 1.5


def test_it_ends_by_a_signal_and_when_who_started_it_is_gone(tmp_path: Path) -> None:
    with listening(tmp_path) as found:
        found.process.send_signal(signal.SIGTERM)
        assert found.process.wait(10) == 0
        assert found.rows("detectors_ended")[0]["why"] == "SIGTERM"
    orphan = {
        "receivers": [{"form": "file", "name": "f", "file": "x", "rule": "R", "severity": "sev2"}],
        "events": str(tmp_path / "orphan.jsonl"),
    }
    code = (
        "import json, os, subprocess, sys\n"
        f"found = {orphan!r} | {{'owner_pid': os.getpid()}}\n"
        "subprocess.Popen([sys.executable, '-m', 'drillmaster.detectors', json.dumps(found)])\n"
        f"import time, pathlib\nwhile not pathlib.Path({orphan['events']!r}).exists(): time.sleep(0.02)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=20).returncode == 0
    until(lambda: '"orphaned"' in (tmp_path / "orphan.jsonl").read_text())


def test_without_its_secret_it_does_not_begin(tmp_path: Path) -> None:
    settings_ = {"receivers": [RECEIVERS[0]], "port": 0}
    for said in ("", "abc-xyz", "with a blank in it, and long enough"):
        done = subprocess.run(
            [sys.executable, "-m", "drillmaster.detectors", json.dumps(settings_)],
            env={**os.environ, "ALERTS": said},
            capture_output=True,
            text=True,
            timeout=20,
        )
        assert done.returncode == 2
        assert "ALERTS" in done.stderr and "openssl rand" in done.stderr
        assert not said or said not in done.stderr


def test_evidence_that_cannot_be_written_is_said_to_the_sender(listener: Listening) -> None:
    assert post(f"{listener.url}/alerts", delivery("alertmanager.json"), BEARER) == 200
    size = listener.events.stat().st_size
    resource.prlimit(listener.process.pid, resource.RLIMIT_FSIZE, (size, size))  # as a full disk
    assert post(f"{listener.url}/alerts", delivery("alertmanager.json"), BEARER) == 503
    assert listener.state()["evidence_lost"]
    assert listener.quit() == 2


def test_a_flood_is_lost_evidence_and_no_full_disk(listener: Listening, tmp_path: Path) -> None:
    with (tmp_path / "app.log").open("a") as file:
        file.write("alert=One sev2\n" * 50_010)
    until(lambda: listener.state()["receivers"]["app"]["alerts"] == 50_010, within_s=40)
    assert listener.state()["evidence_lost"] == 10
    assert len(listener.rows("alert_received")) == 50_000
    assert post(f"{listener.url}/alerts", delivery("alertmanager.json"), BEARER) == 200  # another's is kept
    assert listener.quit() == 2


def test_the_built_in_detector_finds_failures_and_the_listener_hears_it(tmp_path: Path) -> None:
    token = secrets.token_hex(16)
    run = tmp_path / "run"
    run.mkdir()
    with listening(tmp_path, ALERTS=token) as found:
        words = [
            "detector",
            "watch",
            str(run),
            "--target",
            "0.9",
            "--window",
            "10s:2s:2",
            "--to",
            f"{found.url}/alerts",
        ]
        with (tmp_path / "watch.log").open("w") as output:
            watch = subprocess.Popen(
                [sys.executable, "-m", "drillmaster", *words, "--secret-env", "WATCH", "--label", "team=agents"],
                env={**os.environ, "WATCH": token},
                stdout=output,
                stderr=output,
            )
        try:
            injected_ns = 0
            for nth in range(80):
                failing = 20 <= nth < 50
                if nth == 20:
                    injected_ns = found.ns()
                t = datetime.now(UTC).isoformat()
                row = {"t": t, "event": "tool_attempted", "tool": "refund", "result": "timeout" if failing else "ok"}
                with (run / "timeline.jsonl").open("a") as file:
                    file.write(json.dumps(row) + "\n")
                time.sleep(0.1)
            until(lambda: any(row["state"] == "resolved" for row in found.rows("alert_received")))
            with (run / "timeline.jsonl").open("a") as file:
                file.write(json.dumps({"t": datetime.now(UTC).isoformat(), "event": "drill_ended"}) + "\n")
            assert watch.wait(20) == 0
        finally:
            watch.kill()
            watch.wait(10)
        alerts, acks = found.told()
        judged = match(
            alerts,
            acks,
            Injection(run="R", window="w", injected_ns=injected_ns),
            Wanted(rule="ToolFailures", least="sev2", labels={"team": "agents"}),
            Looked(from_ns=0, until_ns=found.ns()),
        )
    assert isinstance(judged.delay, Exact) and not judged.false_positives
    assert judged.delay.value < 3.5
    assert token not in (tmp_path / "watch.log").read_text()
