"""An interview over a WebSocket, by the command line: rows, records and refusals."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest
from websockets.asyncio.server import ServerConnection

from drillmaster.load.reading import open_interview_run
from tests.e2e.test_engine_websocket import server

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(90)]

CLI = (sys.executable, "-m", "drillmaster", "interview")
ONCE = ("--levels", "1,2", "--warm", "6", "--idle", "0", "--rehearsal", "--yes")


async def talk(peer: ServerConnection) -> None:
    async for message in peer:
        said = json.loads(message)
        for word in ("well", "then"):
            await peer.send(json.dumps({"delta": word, "to": said["prompt"]}))
            await asyncio.sleep(0.01)
        await peer.send('{"done": true}')


async def echo(peer: ServerConnection) -> None:
    async for message in peer:
        await peer.send(message)


def interview(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*CLI, *words], cwd=folder, capture_output=True, text=True, timeout=60)


def test_a_plan_with_messages_is_run_and_its_words_are_timed(tmp_path: Path) -> None:
    with server(talk) as port:
        plan = {
            "kind": "plan", "drill": "interview", "job": "talk", "levels": [1, 2], "warm": 6, "idle_s": 0,
            "target": {"url": f"ws://127.0.0.1:{port}/talk", "prompt": "hello", "websocket": {"until": '"done"'}},
            "open": [{"rate_per_s": 20, "seconds": 1}],
        }  # fmt: skip
        (tmp_path / "plan.json").write_text(json.dumps(plan))
        done = interview(tmp_path, "plan.json", "--rehearsal", "--yes")
    assert done.returncode == 0, done.stderr
    (run,) = (tmp_path / "runs").glob("2*")
    read = open_interview_run(run)
    assert read.manifest.url == f"ws://127.0.0.1:{port}/talk"
    assert [level.label for level in read.interview.levels] == ["cold", "warm_c1", "warm_c2", "open_r20"]
    for level in read.interview.levels:
        assert not level.failures
        assert level.ok_s is not None and min(level.ok_s) >= 0.02
    assert {part.name for part in run.glob("gaps*")} == {"gaps.bin", "gaps.cold.bin"}


def test_a_url_is_enough(tmp_path: Path) -> None:
    with server(echo) as port:
        done = interview(tmp_path, f"ws://127.0.0.1:{port}/talk", *ONCE)
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "interview.json").read_text())
    assert rows["url"].startswith("ws://127.0.0.1")
    assert {row["label"]: row["error_rate"] for row in rows["results"]} == {"cold": 0, "warm_c1": 0, "warm_c2": 0}


def test_an_option_says_which_message_ends_an_answer(tmp_path: Path) -> None:
    with server(talk) as port:
        done = interview(tmp_path, f"ws://127.0.0.1:{port}/talk", "--until", '"done"', *ONCE)
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "interview.json").read_text())["results"]
    assert all(row["p50_s"] >= 0.02 for row in rows)
    wrong = interview(tmp_path, f"http://127.0.0.1:{port}/talk", "--until", "(", *ONCE)
    assert wrong.returncode == 2
    assert "--until" in wrong.stderr


@pytest.mark.parametrize(
    "target, found",
    [
        ({"url": "http://127.0.0.1:9/talk", "websocket": {}}, "/target/websocket"),
        ({"url": "ws://127.0.0.1:9/talk", "websocket": {"until": "("}}, "/target/websocket/until"),
        ({"url": "ws://127.0.0.1:9/talk", "dialect": "openai_chat", "model": "m"}, "/target/dialect"),
        ({"url": "ws://127.0.0.1:9/talk", "method": "GET"}, "/target/method"),
        ({"url": "wss://example.com/talk"}, "wanted permission"),
        ({"url": "ws://example.com/talk", "headers": {"Authorization": "Bearer ${KEY}"}}, "wss"),
        ({"url": "ftp://127.0.0.1/talk"}, "http(s) or ws(s)"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_sent(
    tmp_path: Path, target: dict[str, object], found: str
) -> None:
    plan = {"kind": "plan", "drill": "interview", "job": "talk", "target": target}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    done = interview(tmp_path, "plan.json", "--rehearsal", "--yes")
    assert done.returncode == 2
    assert found in done.stderr
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("status", [400, 401, 404, 405, 415, 422, 426, 501])
def test_an_upgrade_that_is_refused_names_no_option_of_http_alone(tmp_path: Path, status: int) -> None:
    async def nothing(peer: ServerConnection) -> None:
        return

    def refuse(connection: ServerConnection, request: object) -> object:
        return connection.respond(status, "no\n")

    with server(nothing, process_request=refuse) as port:
        done = interview(tmp_path, f"ws://127.0.0.1:{port}/talk", *ONCE)
    assert done.returncode == 2 and f"found status {status}" in done.stderr
    assert "no ladder is run" in done.stderr
    assert not any(option in done.stderr for option in ("--dialect", "--model", "--query"))


def test_a_server_that_speaks_no_websocket_is_refused_after_the_cold_call(tmp_path: Path) -> None:
    async def nothing(peer: ServerConnection) -> None:
        return

    def refuse(connection: ServerConnection, request: object) -> object:
        return connection.respond(403, "not here\n")

    with server(nothing, process_request=refuse) as port:
        done = interview(tmp_path, f"ws://127.0.0.1:{port}/talk", *ONCE)
    assert done.returncode == 2
    assert "status 403" in done.stderr
