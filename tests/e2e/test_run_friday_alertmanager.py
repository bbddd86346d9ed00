"""A whole Friday drill whose alerts go through a real Alertmanager that has an old, a flapping and a grouped one."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.e2e.alertlab import Manager, Sink, alertmanager, post, until
from tests.e2e.fridaylab import SECRET, Friday

pytestmark = [pytest.mark.e2e, pytest.mark.needs("prometheus-alertmanager"), pytest.mark.timeout(240)]

ROUTE = "  group_by: [alertname]\n  group_wait: 1s\n  group_interval: 1s\n  repeat_interval: 2s\n"
CLOSE_S = 0.6


@contextmanager
def as_prometheus(manager: Manager, *, silent: bool) -> Iterator[str]:
    """Take the agent's own alerts and tell Alertmanager of them as Prometheus would; `silent`: take them and tell nobody."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            delivery = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            alerts = [
                {"labels": one["labels"], "startsAt": one["startsAt"]}
                | ({"endsAt": one["endsAt"]} if one["status"] == "resolved" else {})
                for one in delivery["alerts"]
            ]
            status = 200 if silent else post(f"{manager.url}/api/v2/alerts", alerts)
            self.send_response(status)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/alerts"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("silent", [False, True], ids=["heard", "nobody tells"])
def test_the_row_is_timed_by_the_alert_of_this_injection(silent: bool, tmp_path: Path) -> None:
    sink = Sink()
    friday = Friday(tmp_path, concurrent=20, phases=(9, 7, 5))
    listener = f"http://127.0.0.1:{friday.alerts}"
    try:
        with (
            alertmanager(tmp_path, listener, sink.url, route=ROUTE, secret=SECRET) as manager,
            as_prometheus(manager, silent=silent) as bridge,
        ):
            friday.plan.write_text(friday.plan.read_text().replace(f"{listener}/alerts", bridge))
            process = friday.start("--rehearsal")

            def heard(state: str, instance: str) -> bool:
                return any(
                    row["state"] == state and row["labels"].get("instance") == instance
                    for row in friday.lines("events/detectors.jsonl")
                    if row["event"] == "alert_received"
                )

            until(lambda: (friday.folder / "runs").exists() and any((friday.folder / "runs").iterdir()), within_s=40)
            friday.wait_for("events/conductor.jsonl", "phase_started", phase="baseline")
            manager.put(starts_s=-60, instance="old")
            manager.put(starts_s=0, instance="flaps")
            until(lambda: heard("firing", "old") and heard("firing", "flaps"))
            manager.put(starts_s=-1, ends_s=0, instance="flaps")
            until(lambda: heard("resolved", "flaps"))
            friday.wait_for("events/flags.jsonl", "fault_injected")
            out, err = process.communicate(timeout=120)
    finally:
        sink.close()
        friday.clear()
    verdict = json.loads((friday.path / "verdict.json").read_text())
    row = next(check for check in verdict["checks"] if check["id"] == "row.detector-time")
    injected = next(row for row in friday.lines("events/flags.jsonl") if row["event"] == "fault_injected")
    mono0_ns = int(json.loads((friday.path / "manifest.json").read_text())["mono0_ns"])
    found = next(finding for finding in verdict["findings"] if finding["id"] == "alert-before-injection")
    assert "fired 2 times" in found["cause"]
    if silent:
        assert (row["status"], row["observed"]["type"]) == ("fail", "at_least"), out + err
        return
    assert row["status"] == "pass", out + err
    independent_s = next(
        (at_ns - mono0_ns - injected["ns"]) / 1e9
        for at_ns, delivery in sink.got
        for one in delivery["alerts"]
        if one["status"] == "firing" and "worker" in one["labels"]
    )
    assert independent_s > 0
    assert row["observed"]["value"] == pytest.approx(independent_s, abs=CLOSE_S)
