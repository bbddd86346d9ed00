"""`drillmaster missions try`, against an agent on loopback."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.locustlab import needs_locust
from tests.e2e.missionlab import agent, missions_text

pytestmark = pytest.mark.e2e


async def _typed(*words: str | Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "drillmaster", "missions", *map(str, words)]
    return await asyncio.to_thread(subprocess.run, argv, capture_output=True, text=True, timeout=60, check=False)


def _run(course: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(course, 90))


def test_each_step_is_told(tmp_path: Path) -> None:
    (tmp_path / "missions.yaml").write_text(missions_text("/ok", "/sorry"))

    async def course() -> None:
        async with agent() as seen:
            ran = await _typed("try", tmp_path / "missions.yaml", "--url", seen.url, "-n", "4")
            assert ran.returncode == 1
            assert ran.stdout.count("  POST /ok  200 ok  ") == 2
            assert ran.stdout.count("  POST /sorry  200 error_body  ") == 2
            assert ran.stdout.endswith("2 ok, 2 failed of 4\n") or ran.stdout.endswith("2 failed, 2 ok of 4\n")
            assert len(seen.requests) == 4
            one = await _typed("try", tmp_path / "missions.yaml", "--url", seen.url, "-n", "1", "--seed", "3", "--json")
            said = json.loads(one.stdout)
            assert [step["request"] for step in said["missions"][0]["steps"]] in (["POST /ok"], ["POST /sorry"])
            assert one.returncode == (0 if said["ok"] else 1)

    _run(course())


def test_a_profile_is_tried_now_and_not_by_its_own_clock(tmp_path: Path) -> None:
    (tmp_path / "artillery.yml").write_text(
        "config:\n  target: http://x\n  phases: [{pause: 900}, {duration: 900, arrivalRate: 50}]\n"
        "scenarios:\n  - flow: [{get: {url: /ok}}]\n"
    )

    async def course() -> None:
        async with agent() as seen:
            ran = await _typed("try", tmp_path / "artillery.yml", "--url", seen.url, "-n", "3")
            assert ran.returncode == 0
            assert "45,000 missions in 1800 s" in ran.stdout
            assert seen.paths() == {"/ok": 3}

    _run(course())


@needs_locust
def test_a_locust_file_is_tried(tmp_path: Path) -> None:
    (tmp_path / "locustfile.py").write_text(
        "from locust import HttpUser, task\n\n\nclass U(HttpUser):\n    @task\n    def ask(self):\n        self.client.get('/ok')\n"
    )

    async def course() -> None:
        async with agent() as seen:
            ran = await _typed("try", tmp_path / "locustfile.py", "--url", seen.url, "-n", "3")
            assert (ran.returncode, ran.stderr) == (0, "")
            assert "  GET /ok  200 ok  " in ran.stdout

    _run(course())


@pytest.mark.parametrize(
    ("url", "says"), [("http://192.0.2.1:80", "not loopback"), ("127.0.0.1:80", "scheme, host, port and path")]
)
def test_what_cannot_be_sent_is_refused(tmp_path: Path, url: str, says: str) -> None:
    (tmp_path / "missions.yaml").write_text(missions_text("/ok"))

    async def course() -> None:
        ran = await _typed("try", tmp_path / "missions.yaml", "--url", url)
        assert (ran.returncode, ran.stdout) == (2, "")
        assert says in ran.stderr

    _run(course())
