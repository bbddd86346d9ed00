"""Other people's load scripts: refused as plans, and held behind the proxy by a network namespace."""

import contextlib
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.interviewlab import Lab, answer, interviewing, server
from tests.e2e.test_permission import NEAR, namespace

__all__ = ["namespace"]

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(90)]

LOCUSTFILE = """\
import socket
from pathlib import Path
from locust import HttpUser, constant, task


class Agent(HttpUser):
    wait_time = constant(0.05)

    @task
    def ask(self):
        self.client.post("/v1/chat", json={"prompt": "x"})
        for place in %r:
            try:
                socket.create_connection(place, timeout=0.5).close()
                Path("reached").write_text(str(place))
            except OSError:
                pass
"""


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    yield from interviewing(tmp_path)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("locustfile.py", "locust -f locustfile.py --host http://127.0.0.1:8081"),
        ("load.js", "k6 run -e BASE_URL=http://127.0.0.1:8081 load.js"),
    ],
)
@pytest.mark.parametrize("there", [True, False])
def test_a_script_that_opens_its_own_sockets_is_refused_with_the_line_that_runs_it_behind_the_proxy(
    lab: Lab, name: str, line: str, there: bool
) -> None:
    if there:
        (lab.folder / name).write_text("raise SystemExit(99)\n")
    done = lab.run(name)
    assert done.returncode == 2
    assert "opens its own sockets" in done.stderr
    assert "drillmaster proxy --upstream URL" in done.stderr
    assert line in done.stderr
    assert not (lab.folder / "runs").exists()


@pytest.mark.needs("ip")
@pytest.mark.skipif(
    importlib.util.find_spec("locust") is None, reason="needs Locust: pip install 'drillmaster[locust]'"
)
def test_a_locust_file_in_a_namespace_reaches_the_proxy_and_nothing_beyond(
    lab: Lab, tmp_path: Path, namespace: list[str]
) -> None:
    with server(lambda _: (0.0, answer())) as (url, truth):
        upstream_port = int(url.split(":")[2].split("/")[0])
        (tmp_path / "locustfile.py").write_text(LOCUSTFILE % [("127.0.0.1", upstream_port), ("192.0.2.1", 80)])
        proxy = subprocess.Popen(
            [
                sys.executable, "-m", "drillmaster", "proxy", "--upstream", f"http://127.0.0.1:{upstream_port}",
                "--listen", f"{NEAR}:18081", "--events", "events.jsonl", "--control", str(tmp_path / "control"),
            ],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )  # fmt: skip
        lab.processes.append(proxy)
        ready = threading.Event()
        for _ in range(200):
            with contextlib.suppress(OSError), socket.create_connection((NEAR, 18081), timeout=1):
                break
            ready.wait(0.05)
        done = subprocess.run(
            [
                *namespace, sys.executable, "-m", "locust", "-f", "locustfile.py", "--headless", "-u", "1", "-r", "1",
                "-t", "4s", "--host", f"http://{NEAR}:18081",
            ],
            cwd=tmp_path,
            env=os.environ,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )  # fmt: skip
        proxy.send_signal(signal.SIGTERM)
        proxy.wait(20)
    assert done.returncode == 0, done.stderr
    assert truth.n > 0
    assert not (tmp_path / "reached").exists()
    seen = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines() if line.strip()]
    assert sum(row["event"] == "attempt" for row in seen) == truth.n
