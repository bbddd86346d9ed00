"""The driver of missions as a process, against an agent on loopback that is slow, resets, hangs, and answers by halves."""

import asyncio
import json
import os
import re
import resource
import signal
import ssl
from collections import Counter
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
import trustme

from drillmaster.errors import Problem
from drillmaster.friday.missions import Arrivals, Held
from drillmaster.missions.flows import requests_of
from drillmaster.missions.process import Driver
from drillmaster.missions.settings import Book
from tests.e2e.missionlab import Agent, agent, driving, missions_text, socket_agent

pytestmark = pytest.mark.e2e


def _run(course: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(course, 90))


def _file(tmp_path: Path, text: str) -> None:
    (tmp_path / "missions.yaml").write_text(text)


def test_two_hundred_are_in_flight_from_the_ramp_to_the_end(tmp_path: Path) -> None:
    _file(tmp_path, missions_text("/ok"))

    async def course() -> None:
        async with agent() as seen, driving(tmp_path, Held(concurrent=200, ramp_s=0.5), url=seen.url) as drive:
            seen.delay_s = 0.3
            await drive.driver.begin()
            await asyncio.sleep(4.2)
            assert await drive.finish() == 0
        held = [row for row in drive.rows("held") if row["wanted"] == 200]
        assert len(held) >= 3
        # The first second has the ramp in it. In those after, a place is empty for no longer than it takes to fill it.
        assert all(row["mean"] > 199 and row["high"] <= 200 for row in held[1:3])
        # What the agent itself counted.
        assert 190 <= seen.most <= 200
        ended = drive.rows("mission_ended")
        assert Counter(row["result"] for row in ended) == {"ok": len(seen.requests)}
        assert len({row["mission"] for row in ended}) == len(ended)
        assert {fields["x-drill-mission"] for _, fields, _ in seen.requests} == {row["mission"] for row in ended}
        assert all(row["end_ns"] - row["due_ns"] >= 0.3e9 for row in ended)

    _run(course())


def test_the_same_seed_sends_the_same_bytes_and_each_mission_is_drawn_again(tmp_path: Path) -> None:
    _file(tmp_path, missions_text("/ok", "/edge"))
    sent: list[dict[str, tuple[str, bytes]]] = []

    async def course() -> None:
        for name, seed in (("a", 7), ("b", 7), ("c", 8)):
            async with agent() as seen:
                load = Held(concurrent=3, ramp_s=0)
                async with driving(tmp_path, load, url=seen.url, name=name, seed=seed, max_missions=20) as drive:
                    await drive.driver.begin()
                    assert await drive.driver.wait() == 0  # it ends by itself
                sent.append({f["x-drill-mission"]: (path, body) for path, f, body in seen.requests})
                book = json.loads((drive.folder / "missions.json").read_bytes())
                for mission, (path, body) in sent[-1].items():
                    (request,) = requests_of(_book(book), mission)[1]
                    assert (request.path, (request.body or "").encode()) == (path, body)
                recorded = [json.loads(line) for line in (drive.folder / "payloads.ndjson").read_bytes().splitlines()]
                assert {r["mission"]: r["requests"][0]["body"].encode() for r in recorded} == {
                    m: body for m, (_, body) in sent[-1].items()
                }

    _run(course())
    assert len(sent[0]) == 20
    assert sent[0] == sent[1]
    assert not {body for _, body in sent[0].values()} & {body for _, body in sent[2].values()}


def _book(said: dict[str, Any]) -> Book:
    import msgspec

    return msgspec.convert(said, Book)


@pytest.mark.parametrize(
    ("path", "result", "step", "status"),
    [
        ("/ok", "ok", "ok", 200),
        ("/chunks", "ok", "ok", 200),
        ("/close", "ok", "ok", 200),
        ("/broken", "failed", "status", 503),
        ("/sorry", "failed", "error_body", 200),
        ("/reset", "failed", "reset", None),
        ("/half", "failed", "cut", 200),
        ("/garbage", "failed", "protocol", None),
        ("/hang", "cut", "timeout", None),
        ("/big", "failed", "too_large", 200),
    ],
)
def test_what_became_of_a_mission_is_on_record(
    tmp_path: Path, path: str, result: str, step: str, status: int | None
) -> None:
    _file(tmp_path, missions_text(path))

    async def course() -> None:
        load = Held(concurrent=2, ramp_s=0)
        more: dict[str, Any] = {"time_limit_s": 0.5, "max_missions": 4, "max_body_bytes": 50_000}
        async with agent() as seen, driving(tmp_path, load, url=seen.url, **more) as drive:
            await drive.driver.begin()
            assert await drive.driver.wait() == 0
        ended, steps = drive.rows("mission_ended"), drive.rows("step_ended")
        assert [(row["result"], row["steps"]) for row in ended] == [(result, 1)] * 4
        assert [(row["result"], row["status"]) for row in steps] == [(step, status)] * 4
        assert len(seen.requests) == 4  # nothing is sent twice
        if step == "timeout":
            assert all(0.5e9 <= row["end_ns"] - row["due_ns"] < 0.8e9 for row in ended)

    _run(course())


def test_steps_keep_their_connection_capture_and_think(tmp_path: Path) -> None:
    _file(
        tmp_path,
        """
kind: missions
flows:
  - name: long
    headers: {Authorization: "Bearer ${AGENT_KEY}"}
    steps:
      - {path: /ok, json: {}, capture: {ticket: /ticket/id}}
      - {method: GET, path: "/tickets/{{ ticket }}", headers: {X-Ticket: "{{ ticket }}"}, think_s: 0.3}
      - {path: /close, text: "about {{ ticket }}"}
      - {path: /ok, json: [1]}
""",
    )

    async def course() -> None:
        load = Held(concurrent=4, ramp_s=0)
        env = {"AGENT_KEY": "sk-1234567890abcdefghijkl"}
        async with agent() as seen, driving(tmp_path, load, url=f"{seen.url}/v2", max_missions=12, env=env) as drive:
            await drive.driver.begin()
            # A mission that thinks is not in flight: others take its place.
            await drive.until(lambda state: state["thinking"] >= 4)
            assert await drive.driver.wait() == 0
        assert seen.paths() == {"/v2/ok": 24, "/v2/tickets/t%2F7": 12, "/v2/close": 12}
        ticket = next(fields for path, fields, _ in seen.requests if "tickets" in path)
        assert (ticket["x-ticket"], ticket["authorization"]) == ("t/7", f"Bearer {env['AGENT_KEY']}")
        assert {body for path, _, body in seen.requests if path == "/v2/close"} == {b"about t/7"}
        ended = drive.rows("mission_ended")
        assert [(row["result"], row["steps"], row["thought_ns"]) for row in ended] == [("ok", 4, 300_000_000)] * 12
        for file in drive.folder.rglob("*"):
            if file.is_file():
                assert env["AGENT_KEY"].encode() not in file.read_bytes(), file

    _run(course())


def test_arrivals_are_due_by_the_clock_whatever_the_agent_does(tmp_path: Path) -> None:
    _file(tmp_path, missions_text("/hang"))

    async def course() -> None:
        load = Held(arrivals=(Arrivals(for_s=2, per_s=20, to_per_s=60),), max_open=30)
        async with agent() as seen, driving(tmp_path, load, url=seen.url, time_limit_s=1) as drive:
            await drive.driver.begin()
            assert await drive.driver.wait() == 0
        ended = drive.rows("mission_ended")
        results = Counter(row["result"] for row in ended)
        assert len(ended) == 80
        assert results["cut"] == len(seen.requests)
        assert results["unsent"] == 80 - results["cut"] > 5  # and they are on record
        due = sorted(row["due_ns"] for row in ended)
        begun_ns = drive.rows("missions_begun")[0]["begun_ns"]
        assert sum(ns - begun_ns < 1e9 for ns in due) == 30  # 20 t + 10 t^2 at 1 s
        assert max(row["high"] for row in drive.rows("held")) <= 30

    _run(course())


def test_a_target_that_is_gone_is_knocked_at_and_not_hammered(tmp_path: Path) -> None:
    _file(tmp_path, missions_text("/ok"))

    async def course() -> None:
        async with agent() as seen:
            url = seen.url
        async with driving(tmp_path, Held(concurrent=5, ramp_s=0), url=url) as drive:
            await drive.driver.begin()
            await asyncio.sleep(2.4)
            assert await drive.finish() == 0
        steps = drive.rows("step_ended")
        assert {row["result"] for row in steps} == {"refused"}
        assert 10 <= len(steps) <= 15  # five places, once a second

    _run(course())


def test_a_killed_driver_has_lost_nothing_that_it_measured(tmp_path: Path) -> None:
    _file(tmp_path, missions_text("/ok"))

    async def course() -> None:
        async with agent() as seen, driving(tmp_path, Held(concurrent=50, ramp_s=0), url=seen.url) as drive:
            await drive.driver.begin()
            state = await drive.until(lambda state: state["ok"] > 500)
            assert drive.driver.pid is not None
            os.kill(drive.driver.pid, signal.SIGKILL)
            assert await drive.driver.wait() == -signal.SIGKILL
        started, ended = drive.rows("mission_started"), drive.rows("mission_ended")
        assert len(ended) >= state["ok"]
        open_ones = {row["mission"] for row in started} - {row["mission"] for row in ended}
        assert 0 < len(open_ones) <= 50  # those under way have a start, and no end
        assert {f["x-drill-mission"] for _, f, _ in seen.requests} <= {row["mission"] for row in started}

    _run(course())


def test_what_is_under_way_at_the_end_goes_on_to_its_end_or_is_cut(tmp_path: Path) -> None:
    _file(tmp_path, missions_text("/ok"))

    async def course() -> None:
        async with agent() as seen:
            seen.delay_s = 0.5
            async with driving(tmp_path, Held(concurrent=20, ramp_s=0), url=seen.url, name="drained") as drive:
                await drive.driver.begin()
                await drive.until(lambda state: state["in_flight"] == 20)
                assert await drive.finish() == 0
            assert Counter(row["result"] for row in drive.rows("mission_ended")) == {"ok": 20}
            seen.delay_s = 30
            async with driving(tmp_path, Held(concurrent=20, ramp_s=0), url=seen.url, name="cut") as drive:
                await drive.driver.begin()
                await drive.until(lambda state: state["in_flight"] == 20)
                assert await drive.driver.quit("the drill is over") == 0
            ended = drive.rows("mission_ended")
            assert {(row["result"], row["why"]) for row in ended} == {("cut", "ended: the drill is over")}
            assert len(ended) == 20

    _run(course())


def test_a_driver_whose_owner_is_gone_begins_none_any_more(tmp_path: Path) -> None:
    _file(tmp_path, missions_text("/ok"))

    async def course() -> None:
        async with agent() as seen, driving(tmp_path, Held(concurrent=2, ramp_s=0), url=seen.url) as ready:
            await ready.driver.quit()
            import msgspec

            orphan = Driver(
                msgspec.structs.replace(ready.settings, owner_pid=1), log=ready.folder / "log", env=os.environ
            )
            await orphan.start()
            await orphan.begin()
            async with asyncio.timeout(5):
                assert await orphan.wait() == 0
        assert [row["why"] for row in ready.rows("no_more_missions")] == ["its owner is gone"]

    _run(course())


def test_evidence_that_cannot_be_written_ends_the_drive(tmp_path: Path) -> None:
    _file(tmp_path, missions_text("/ok"))

    async def course() -> None:
        async with agent() as seen, driving(tmp_path, Held(concurrent=20, ramp_s=0), url=seen.url) as drive:
            assert drive.driver.pid is not None
            # As a full disk does: what was written stays, and no further line is taken.
            resource.prlimit(drive.driver.pid, resource.RLIMIT_FSIZE, (40_000, 40_000))
            await drive.driver.begin()
            async with asyncio.timeout(10):
                assert await drive.driver.wait() == 2
            done = len(seen.requests)
            await asyncio.sleep(0.3)
            assert len(seen.requests) == done
        assert "wanted a file that takes one more line" in drive.log
        assert len(drive.rows("mission_started")) > 10

    _run(course())


def test_a_machine_without_descriptors_is_no_outcome_of_the_agents(tmp_path: Path) -> None:
    _file(tmp_path, missions_text("/ok"))

    async def course() -> None:
        async with agent() as seen, driving(tmp_path, Held(concurrent=200, ramp_s=0), url=seen.url) as drive:
            seen.delay_s = 1
            assert drive.driver.pid is not None
            resource.prlimit(drive.driver.pid, resource.RLIMIT_NOFILE, (64, 64))
            await drive.driver.begin()
            async with asyncio.timeout(10):
                assert await drive.driver.wait() == 2
        assert "raise the limit (ulimit -n)" in drive.log
        assert all(row["result"] != "failed" for row in drive.rows("mission_ended"))

    _run(course())


def test_a_host_that_is_not_loopback_gets_no_byte_without_permission(tmp_path: Path) -> None:
    _file(tmp_path, missions_text("/ok"))

    async def course() -> None:
        with pytest.raises(Problem, match="not loopback"):
            async with driving(tmp_path, Held(concurrent=1), url="http://192.0.2.1:9"):
                pass

    _run(course())


def test_caps_of_a_permission_hold(tmp_path: Path) -> None:
    _file(tmp_path, missions_text("/ok"))

    async def course() -> None:
        caps: dict[str, Any] = {"max_per_s": 20.0, "max_requests": 30}
        async with agent() as seen, driving(tmp_path, Held(concurrent=50, ramp_s=0), url=seen.url, **caps) as drive:
            await drive.driver.begin()
            assert await drive.driver.wait() == 0
        assert len(seen.requests) == 30
        assert [row["why"] for row in drive.rows("load_ended")] == ["the permitted requests"]
        sent = sorted(row["sent_ns"] for row in drive.rows("step_ended"))
        assert sent[-1] - sent[0] >= 28 / 20 * 1e9

    _run(course())


def test_tls_is_spoken_and_a_stranger_refused(tmp_path: Path) -> None:
    _file(tmp_path, missions_text("/ok"))
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))

    async def course() -> None:
        async with agent(context) as seen:
            url = f"https://localhost:{seen.port}"
            load = Held(concurrent=5, ramp_s=0)
            ca = str(tmp_path / "ca.pem")
            async with driving(tmp_path, load, url=url, name="known", ca=ca, max_missions=20) as drive:
                await drive.driver.begin()
                assert await drive.driver.wait() == 0
            assert {row["result"] for row in drive.rows("mission_ended")} == {"ok"}
            async with driving(tmp_path, load, url=url, name="stranger", max_missions=5) as drive:
                await drive.driver.begin()
                assert await drive.driver.wait() == 0
            assert {row["result"] for row in drive.rows("step_ended")} == {"tls"}
            assert len(seen.requests) == 20

    _run(course())


_SOCKET = """
kind: missions
data: {user: {make: uuid}}
flows:
  - name: live
    entry: websocket
    path: /agent/mission/ws
    steps:
      - {json: {user_id: "{{ user }}"}, until: '"done"', capture: {ticket: /ticket}}
      - {text: "more of {{ ticket }}", expect: {matching: more}}
"""


def test_missions_over_a_websocket(tmp_path: Path) -> None:
    _file(tmp_path, _SOCKET)
    heard: list[str] = []
    names: set[str] = set()

    async def talk(connection: Any) -> None:
        names.add(connection.request.headers["X-Drill-Mission"])
        first = await connection.recv()
        heard.append(first)
        await connection.send('{"said":"wait"}')
        await connection.ping()
        await connection.send(json.dumps({"done": True, "ticket": "t7", "text": "é" * 200}))
        second = await connection.recv()
        await connection.send(second)
        async for _ in connection:
            pass

    async def course() -> None:
        async with socket_agent(talk) as port:
            load = Held(concurrent=10, ramp_s=0)
            async with driving(tmp_path, load, url=f"http://127.0.0.1:{port}", max_missions=30) as drive:
                await drive.driver.begin()
                assert await drive.driver.wait() == 0
        ended = drive.rows("mission_ended")
        assert [(row["entry"], row["result"], row["steps"]) for row in ended] == [("websocket", "ok", 2)] * 30
        assert names == {row["mission"] for row in ended}
        assert all(re.fullmatch(r'\{"user_id":"[0-9a-f-]{36}"\}', text) for text in heard)

    _run(course())


@pytest.mark.parametrize("way", ["close", "silence", "no upgrade", "flood"])
def test_a_websocket_that_ends_or_never_opens_fails_its_mission(tmp_path: Path, way: str) -> None:
    _file(tmp_path, _SOCKET)

    async def talk(connection: Any) -> None:
        await connection.recv()
        if way == "close":
            await connection.close(1011)
        elif way == "flood":
            while True:
                await connection.send("x" * 50_000)
        else:
            await asyncio.sleep(30)

    async def course() -> None:
        async with socket_agent(talk) as port, agent() as plain:
            url = plain.url if way == "no upgrade" else f"http://127.0.0.1:{port}"
            more: dict[str, Any] = {"max_missions": 3, "time_limit_s": 0.4, "max_body_bytes": 200_000}
            async with driving(tmp_path, Held(concurrent=3, ramp_s=0), url=url, **more) as drive:
                await drive.driver.begin()
                assert await drive.driver.wait() == 0
        wanted = {"close": "cut", "silence": "timeout", "no upgrade": "status", "flood": "too_large"}[way]
        assert [row["result"] for row in drive.rows("step_ended")] == [wanted] * 3

    _run(course())


def test_one_process_holds_two_thousand(tmp_path: Path) -> None:
    _file(tmp_path, missions_text("/ok"))

    async def course() -> None:
        async with agent() as seen, driving(tmp_path, Held(concurrent=2_000, ramp_s=3), url=seen.url) as drive:
            seen.delay_s = 3
            await drive.driver.begin()
            await drive.until(lambda state: state["in_flight"] == 2_000, 30)
            await asyncio.sleep(3)
            assert await drive.finish() == 0
        assert max(row["low"] for row in drive.rows("held")) > 1_900
        assert {row["result"] for row in drive.rows("mission_ended")} == {"ok"}
        assert isinstance(seen, Agent)
        assert seen.most > 1_900

    _run(course())


def test_users_who_think_leave_their_place_and_none_waits_to_come_back(tmp_path: Path) -> None:
    steps = "[{path: /ok, json: {}}, {path: /ok, json: {}, think_s: [0.05, 0.4]}, {path: /ok, json: {}, think_s: 0.2}]"
    _file(tmp_path, f"kind: missions\nflows: [{{name: slow, steps: {steps}}}]\n")

    async def course() -> None:
        async with agent() as seen, driving(tmp_path, Held(concurrent=30, ramp_s=0.2), url=seen.url) as drive:
            seen.delay_s = 0.1
            await drive.driver.begin()
            await asyncio.sleep(4.3)
            assert await drive.finish() == 0
        held = [row for row in drive.rows("held") if row["wanted"] == 30][1:]
        assert len(held) >= 2
        assert all(29.5 < row["mean"] < 36 and row["thinking"] > 5 for row in held)
        # A step is due when its user has thought; nobody was kept from it for the sake of the number.
        late = [row["sent_ns"] - row["due_ns"] for row in drive.rows("step_ended") if row["sent_ns"] is not None]
        assert sorted(late)[len(late) // 2] < 20e6
        by_mission: dict[str, list[dict[str, Any]]] = {}
        for row in drive.rows("step_ended"):
            by_mission.setdefault(row["mission"], []).append(row)
        whole = [rows for rows in by_mission.values() if len(rows) == 3]
        assert all(0.05e9 <= b["due_ns"] - a["end_ns"] <= 0.41e9 for a, b, _ in whole)
        assert all(abs(c["due_ns"] - b["end_ns"] - 0.2e9) < 1e6 for _, b, c in whole)

    _run(course())
