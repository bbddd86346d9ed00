"""Somebody's Locust file as it is: the plan's target, each request on record, and nothing lost at the end."""

import asyncio
import json
import os
import signal
from collections import Counter
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from drillmaster.friday.missions import Locust
from tests.e2e.locustlab import needs_locust
from tests.e2e.missionlab import agent, driving

pytestmark = [pytest.mark.e2e, needs_locust]

_FILE = """
import random
import uuid

from locust import {user}, between, task


class Customer({user}):
    host = "https://staging.example.com"
    wait_time = between(0.01, 0.05)

    @task(3)
    def ask(self):
        self.client.post("{path}", json={{"user_id": str(uuid.uuid4()), "order": random.randint(1000, 9999)}})

    @task
    def look(self):
        {look}
"""


def _run(course: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(course, 90))


def _file(
    tmp_path: Path, *, user: str = "HttpUser", path: str = "/ok", look: str = 'self.client.get("/look")'
) -> Locust:
    (tmp_path / "locustfile.py").write_text(_FILE.format(user=user, path=path, look=look))
    return Locust(file="locustfile.py", users=5, users_per_s=50, stop_s=2)


@pytest.mark.parametrize("user", ["HttpUser", "FastHttpUser"])
def test_each_request_of_a_locust_file_is_a_mission_at_the_plans_target(tmp_path: Path, user: str) -> None:
    load = _file(tmp_path, user=user)

    async def course() -> None:
        async with agent() as seen, driving(tmp_path, load, url=seen.url) as drive:
            await drive.driver.begin()
            await drive.until(lambda state: state["ok"] > 40)
            assert await drive.finish() == 0
        ended = drive.rows("mission_ended")
        assert Counter(row["result"] for row in ended)["ok"] == len(seen.requests)
        assert Counter(row["flow"] for row in ended).keys() == {"POST /ok", "GET /look"}
        assert {f["x-drill-mission"] for _, f, _ in seen.requests} <= {row["mission"] for row in ended}
        steps = [row for row in drive.rows("step_ended") if row["result"] == "ok"]
        assert all(0.02e9 <= row["end_ns"] - row["sent_ns"] < 2e9 and row["status"] == 200 for row in steps)
        assert sum(row["mean"] for row in drive.rows("held")) > 0
        started = {row["mission"] for row in drive.rows("mission_started")}
        assert started == {row["mission"] for row in ended}

    _run(course())


_LOOK = """with self.client.get("/look", catch_response=True) as got:
            got.failure("not what was asked for")"""


@pytest.mark.parametrize(
    ("path", "look", "results"),
    [
        ("/ok", _LOOK, {"ok", "script"}),
        ("/sorry", 'self.client.get("/broken")', {"error_body", "status"}),
        ("/reset", 'self.client.get("/half")', {"cut", "reset"}),
    ],
)
def test_what_locust_calls_a_success_is_looked_at_again(
    tmp_path: Path, path: str, look: str, results: set[str]
) -> None:
    load = _file(tmp_path, path=path, look=look)

    async def course() -> None:
        async with agent() as seen, driving(tmp_path, load, url=seen.url) as drive:
            await drive.driver.begin()
            await drive.until(lambda state: state["started"] > 60)
            assert await drive.finish() == 0  # one failed request does not make it an exit code
        found = {row["result"] for row in drive.rows("step_ended")} - {"ended"}
        assert found & results
        assert found <= results | {"cut", "reset"}
        assert all("asked for" not in json.dumps(row) for row in drive.rows())  # their words stay theirs

    _run(course())


_MANY = """
from locust import HttpUser, between, task


class Customer(HttpUser):
    wait_time = between(0.0, 0.02)

    @task
    def ask(self):
        self.client.get("/ok")

    def on_stop(self):
        self.client.get("/ok?bye")
"""


def test_users_who_wake_as_the_end_is_ordered_are_not_ended_within_a_request(tmp_path: Path) -> None:
    (tmp_path / "locustfile.py").write_text(_MANY)

    async def course() -> None:
        load = Locust(file="locustfile.py", users=100, users_per_s=1_000, stop_s=10)
        async with agent() as seen, driving(tmp_path, load, url=seen.url) as drive:
            await drive.driver.begin()
            await drive.until(lambda state: state["started"] > 500)
            assert await drive.finish() == 0
        assert {row["result"] for row in drive.rows("mission_ended")} == {"ok"}
        assert len(drive.rows("mission_ended")) == len(seen.requests)
        assert sum(path.endswith("?bye") for path, *_ in seen.requests) == 100  # what a file does at its end is done

    _run(course())


def test_requests_in_flight_at_the_end_are_not_lost(tmp_path: Path) -> None:
    load = _file(tmp_path, path="/hang", look='self.client.get("/hang")')

    async def course() -> None:
        async with agent() as seen, driving(tmp_path, load, url=seen.url) as drive:
            await drive.driver.begin()
            await drive.until(lambda state: state["in_flight"] == 5)
            assert await drive.finish() == 0
        ended = drive.rows("mission_ended")
        assert [row["result"] for row in ended] == ["cut"] * 5
        assert all(row["end_ns"] - row["due_ns"] > 1.5e9 for row in ended)  # they had their time to end
        assert len(seen.requests) == 5

    _run(course())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("import locust\nraise RuntimeError('no such order')", "no such order"),
        ("x = 1\n", "wanted a load until the drill's end"),  # no user in it
    ],
)
def test_no_request_at_all_is_refused_with_what_locust_said(tmp_path: Path, text: str, says: str) -> None:
    load = _file(tmp_path)
    (tmp_path / "locustfile.py").write_text(text)

    async def course() -> None:
        async with agent() as seen, driving(tmp_path, load, url=seen.url) as drive:
            await drive.driver.begin()
            assert await drive.driver.wait() == 2
        assert "Locust ended by itself" in drive.log
        assert says in drive.log

    _run(course())


def test_a_key_in_a_path_is_in_no_file(tmp_path: Path) -> None:
    key, token = "sk-live-4f9a8b7c6d5e4f3a2b1c", "0f8fad5bd9cb469fa16570867728950e"
    look = f'self.client.get("/look/{key}?token={token}", headers={{"Authorization": "Bearer {token}"}})'
    load = _file(tmp_path, path=f"/ok/{token}", look=look)

    async def course() -> None:
        async with agent() as seen, driving(tmp_path, load, url=seen.url) as drive:
            await drive.driver.begin()
            await drive.until(lambda state: state["ok"] > 30)
            assert await drive.finish() == 0
        assert {row["flow"] for row in drive.rows("mission_ended")} == {"POST /ok/*", "GET /look/*"}
        for file in drive.folder.rglob("*"):
            if file.is_file():
                assert key.encode() not in file.read_bytes(), file
                assert token.encode() not in file.read_bytes(), file

    _run(course())


def test_users_that_never_ask_are_no_success(tmp_path: Path) -> None:
    load = _file(tmp_path)
    text = (
        (tmp_path / "locustfile.py")
        .read_text()
        .replace("    @task(3)", "    def on_start(self):\n        __import__('gevent').sleep(60)\n\n    @task(3)")
    )
    (tmp_path / "locustfile.py").write_text(text)

    async def course() -> None:
        async with agent() as seen, driving(tmp_path, load, url=seen.url) as drive:
            await drive.driver.begin()
            await asyncio.sleep(2)
            assert await drive.finish() == 2
        assert "no mission was begun" in drive.log

    _run(course())


def test_a_request_to_another_address_ends_the_drive_before_a_byte_is_sent(tmp_path: Path) -> None:
    load = _file(tmp_path, look='self.client.get("http://192.0.2.1:9/x")')

    async def course() -> None:
        async with agent() as seen, driving(tmp_path, load, url=seen.url) as drive:
            await drive.driver.begin()
            async with asyncio.timeout(20):
                assert await drive.driver.wait() == 2
        assert "a connection to 192.0.2.1, which is neither loopback nor the target" in drive.log

    _run(course())


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_locust_ends_with_a_driver_that_is_killed_and_its_lines_stay(tmp_path: Path) -> None:
    load = _file(tmp_path)

    async def course() -> None:
        async with agent() as seen, driving(tmp_path, load, url=seen.url) as drive:
            await drive.driver.begin()
            await drive.until(lambda state: state["ok"] > 20)
            pid = drive.driver.pid
            assert pid is not None
            children = [int(c) for c in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
            os.kill(pid, signal.SIGKILL)
            await drive.driver.wait()
            async with asyncio.timeout(15):
                while any(map(_alive, children)):
                    await asyncio.sleep(0.1)
            done = len(seen.requests)
            await asyncio.sleep(0.3)
            assert len(seen.requests) == done
        sent = [json.loads(line) for line in (drive.folder / "locust-0.ndjson").read_bytes().splitlines()]
        assert {f["x-drill-mission"] for _, f, _ in seen.requests} <= {
            line["mission"] for line in sent if line["k"] == "s"
        }

    _run(course())
