"""A profile under the Artillery that is installed, beside the same profile translated."""

import asyncio
import os
import shutil
import signal
from collections import Counter
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from drillmaster.errors import Problem
from drillmaster.friday.missions import Artillery
from tests.e2e.missionlab import agent, driving

pytestmark = pytest.mark.e2e
needs_artillery = pytest.mark.skipif(
    shutil.which("artillery") is None, reason="needs Artillery, a thousand packages of Node: npm install -g artillery"
)

_PROFILE = """
config:
  target: "https://staging.example.com"
  phases:
    - {{duration: 2, arrivalRate: 5, rampTo: 15, name: "rehearsal"}}
scenarios:
  - flow:
      - post:
          url: "{path}"
          json:
            user_id: "{{{{ $uuid }}}}"
            text: "Customer wants refund {{{{ $randomNumber(1000, 9999) }}}}"
"""


def _run(course: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(course, 120))


def _profile(tmp_path: Path, by: str, path: str = "/ok") -> Artillery:
    (tmp_path / "artillery.yml").write_text(_PROFILE.format(path=path))
    return Artillery(file="artillery.yml", by=by, max_arrivals=30)  # type: ignore[arg-type]


@pytest.mark.parametrize("by", ["translation", pytest.param("artillery", marks=needs_artillery)])
@pytest.mark.parametrize(("path", "result"), [("/ok", "ok"), ("/sorry", "error_body"), ("/reset", "reset")])
def test_each_request_of_a_profile_is_a_mission_at_the_plans_target(
    tmp_path: Path, by: str, path: str, result: str
) -> None:
    load = _profile(tmp_path, by, path)

    async def course() -> None:
        async with agent() as seen, driving(tmp_path, load, url=seen.url) as drive:
            await drive.driver.begin()
            assert await drive.driver.wait() == 0  # its phases are over
        steps = drive.rows("step_ended")
        assert {row["result"] for row in steps} == {result}
        assert len(steps) == len(seen.requests)
        assert abs(len(steps) - 20) <= 1
        names = {fields["x-drill-mission"] for _, fields, _ in seen.requests}
        assert names == {row["mission"] for row in drive.rows("mission_started")}
        assert Counter(len(f["traceparent"]) for _, f, _ in seen.requests) == {55: len(steps)}

    _run(course())


def test_more_arrivals_than_the_plan_allows_are_refused_before_anything_is_sent(tmp_path: Path) -> None:
    load = _profile(tmp_path, "translation")
    text = (tmp_path / "artillery.yml").read_text().replace("duration: 2", "duration: 900")
    (tmp_path / "artillery.yml").write_text(text)

    async def course() -> None:
        with pytest.raises(Problem, match="phases that bring 9,000 users in 900 s"):
            async with driving(tmp_path, load, url="http://127.0.0.1:9"):
                pass

    _run(course())


@needs_artillery
def test_artillery_ends_with_a_driver_that_is_killed(tmp_path: Path) -> None:
    load = _profile(tmp_path, "artillery")
    text = (tmp_path / "artillery.yml").read_text().replace("duration: 2", "duration: 60")
    (tmp_path / "artillery.yml").write_text(text)
    load = Artillery(file="artillery.yml", by="artillery", max_arrivals=1_000)

    async def course() -> None:
        async with agent() as seen, driving(tmp_path, load, url=seen.url) as drive:
            await drive.driver.begin()
            await drive.until(lambda state: state["ok"] > 5, 60)
            assert drive.driver.pid is not None
            os.kill(drive.driver.pid, signal.SIGKILL)
            await drive.driver.wait()
            async with asyncio.timeout(20):
                done = -1
                while done != len(seen.requests):
                    done = len(seen.requests)
                    await asyncio.sleep(2)
        assert (drive.folder / "artillery-0.ndjson").read_bytes().count(b'"k":"s"') >= done

    _run(course())


def test_a_profile_for_an_artillery_that_is_not_there_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = _profile(tmp_path, "artillery")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert shutil.which("artillery") is None

    async def course() -> None:
        with pytest.raises(Problem, match="no artillery on PATH"):
            async with driving(tmp_path, load, url="http://127.0.0.1:9"):
                pass

    _run(course())
