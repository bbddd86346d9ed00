"""`detector listen`: by hand, before a drill depends on it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.alertlab import SECRET, free_port, post, until

pytestmark = pytest.mark.e2e

DELIVERY = Path(__file__).parent.parent / "detectors" / "deliveries" / "alertmanager.json"


def test_it_says_where_and_writes_what_comes_until_it_is_interrupted(tmp_path: Path) -> None:
    port = free_port()
    (tmp_path / "plan.yaml").write_text(
        f"kind: plan\ndrill: friday\ndetectors:\n  listen: 127.0.0.1:{port}\n"
        "  receivers: [{form: alertmanager, name: am, path: /alerts, secret_env: ALERTS}]\n"
    )
    with (tmp_path / "listen.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "drillmaster", "detector", "listen", "plan.yaml"],
            cwd=tmp_path,
            env={**os.environ, "ALERTS": SECRET},
            stdout=log,
            stderr=log,
        )
    try:
        events = tmp_path / "detectors.jsonl"
        until(lambda: events.exists() and "detector_ready" in events.read_text())
        assert (
            post(f"http://127.0.0.1:{port}/alerts", DELIVERY.read_bytes(), {"Authorization": f"Bearer {SECRET}"}) == 200
        )
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.wait(10)
    rows = [json.loads(line)["event"] for line in events.read_text().splitlines()]
    assert rows == ["detectors_started", "detector_ready", "alert_received", "alert_received", "detectors_ended"]
    said = (tmp_path / "listen.log").read_text()
    assert f"listening on 127.0.0.1:{port}" in said and SECRET not in said


def test_a_port_that_somebody_has_is_named(tmp_path: Path) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        (tmp_path / "plan.yaml").write_text(
            f"detectors:\n  listen: 127.0.0.1:{port}\n"
            "  receivers: [{form: alertmanager, name: am, path: /alerts, secret_env: ALERTS}]\n"
        )
        done = subprocess.run(
            [sys.executable, "-m", "drillmaster", "detector", "listen", "plan.yaml"],
            cwd=tmp_path,
            env={**os.environ, "ALERTS": SECRET},
            capture_output=True,
            text=True,
            timeout=30,
        )
    assert done.returncode == 2 and f"sport = :{port}" in done.stderr
