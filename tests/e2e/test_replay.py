"""A recorded mission is asked again and served again, over real sockets, and the first difference has a name."""

import json
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from tests.e2e.replaylab import RUN, WORDS, Folder, Upstream, running

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]


def drillmaster(*words: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "drillmaster", *words], capture_output=True, text=True, cwd=cwd, timeout=60, check=False
    )


def said(ran: "subprocess.CompletedProcess[str]") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sealed run of three missions: one message, two messages, and three over a WebSocket. The first call of the tool fails."""
    home = tmp_path_factory.mktemp("recorded")
    folder = Folder(home / "runs")
    upstream = Upstream(tool_fails=1)
    try:
        with running(upstream.url, folder.transcripts, log=folder.path / "timeline.jsonl") as agent:
            folder.ask(agent, "m1aaaa", ["Refund order #17"])
            folder.ask(agent, "m2aaaa", ["Hello", "Refund order #18"])
            folder.talk(agent, "m3aaaa", ["Refund order #21", "Hello", "Refund order #22"])
    finally:
        upstream.close()
    folder.seal()
    return home


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    made = Upstream(pace_s=0.0)
    yield made
    made.close()


def test_every_mission_has_a_whole_transcript(recorded: Path) -> None:
    ran = drillmaster("transcript", "list", "runs/20261204T160000Z-1a2b", "--json", cwd=recorded)
    told = said(ran)
    assert (ran.returncode, told["complete"], told["expected"], told["sealed"], told["spoilt"]) == (0, 3, 3, True, 0)


@pytest.mark.parametrize("mission", ["m1aaaa", "m2aaaa", "m3aaaa"])
def test_the_same_agent_asked_again_says_the_same(
    recorded: Path, upstream: Upstream, tmp_path: Path, mission: str
) -> None:
    with running(upstream.url, tmp_path / "again", run="again") as agent:
        url = agent.twin if mission.startswith("m3") else agent.url
        ran = drillmaster(
            "replay", mission, "--url", url, "--transcripts", str(tmp_path / "again"), "--json", cwd=recorded
        )
    told = said(ran)
    assert (ran.returncode, told["difference"], told["tools"], told["trouble"]) == (0, None, "compared", [])


@pytest.mark.parametrize(
    ("mission", "variant", "what", "in_it"),
    [
        ("m1aaaa", "broken", "tool", "refund"),
        ("m2aaaa", "broken", "status", "500"),
        ("m1aaaa", "another-tool", "tool", "credit"),
        ("m1aaaa", "another-order", "arguments", "18"),
        ("m1aaaa", "other-words", "answer", "not refund order"),
        ("m3aaaa", "other-words", "answer", "not refund order"),
        ("m3aaaa", "another-order", "arguments", "22"),
    ],
)
def test_another_agent_is_told_by_its_first_difference(
    recorded: Path, upstream: Upstream, tmp_path: Path, mission: str, variant: str, what: str, in_it: str
) -> None:
    with running(upstream.url, tmp_path / "again", run="again", variant=variant) as agent:
        url = agent.twin if mission.startswith("m3") else agent.url
        ran = drillmaster(
            "replay", mission, "--url", url, "--transcripts", str(tmp_path / "again"), "--json", cwd=recorded
        )
    told = said(ran)
    assert (ran.returncode, told["difference"]["what"]) == (1, what), told
    assert in_it in json.dumps(told["difference"])


def test_without_the_agents_own_transcripts_no_tool_is_compared_and_that_is_said(
    recorded: Path, upstream: Upstream, tmp_path: Path
) -> None:
    with running(upstream.url, tmp_path / "again", variant="another-order") as agent:
        ran = drillmaster("replay", "m1aaaa", "--url", agent.url, cwd=recorded)
    assert ran.returncode == 1  # the answer has the order's number in it
    assert "answer at /refund/order: recorded 17, now 18" in ran.stdout
    assert "tools not seen; name --transcripts to compare them" in ran.stdout


class Server:
    """`drillmaster replay --serve`, and what it says line by line."""

    def __init__(self, home: Path, mission: str, *words: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "drillmaster", "replay", mission, "--serve", "--json", *words],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=home,
        )  # fmt: skip  # one call
        assert self.process.stdout is not None
        self.url = json.loads(self.process.stdout.readline())["listening"]

    def end(self) -> tuple[int, list[dict[str, Any]]]:
        if self.process.poll() is None:
            try:
                self.process.wait(1.0)
            except subprocess.TimeoutExpired:
                self.process.terminate()
        out, err = self.process.communicate(timeout=20)
        assert "Traceback" not in err
        return self.process.returncode, [json.loads(line) for line in out.splitlines()]


@pytest.mark.parametrize("mission", ["m1aaaa", "m3aaaa"])
def test_the_agent_runs_offline_on_what_was_recorded(recorded: Path, tmp_path: Path, mission: str) -> None:
    server = Server(recorded, mission, "--as-fast-as-possible")
    again = Folder(tmp_path / "runs")
    with running(server.url, again.transcripts) as agent:
        if mission == "m1aaaa":
            (answer,) = again.ask(agent, "m9", ["Refund order #17"])
            assert answer.json()["text"] == "".join(WORDS)
        else:
            again.talk(agent, "m9", ["Refund order #21", "Hello", "Refund order #22"])
    code, told = server.end()
    assert (code, told[-1]["rounds"], told[-1]["diverged"]) == (0, 1, 0), told


def test_bytes_come_at_the_recorded_pace_or_as_fast_as_they_are_taken(recorded: Path) -> None:
    asked = {
        "model": "small",
        "stream": True,
        "messages": [{"role": "user", "content": "Refund order #17"}],
        "user": str(uuid.uuid4()),
    }
    for words, least, most in ((("--once",), 0.15, 3.0), (("--as-fast-as-possible",), 0.0, 0.12)):
        server = Server(recorded, "m1aaaa", *words)
        with httpx.stream(
            "POST",
            f"{server.url}/v1/chat/completions",
            json=asked,
            trust_env=False,
        ) as answer:
            took = []
            began = time.monotonic()
            for _ in answer.iter_raw():
                took.append(time.monotonic() - began)
        server.process.terminate()
        server.end()
        assert (answer.status_code, answer.headers["content-type"]) == (200, "text/event-stream")
        assert least <= took[-1] - took[0] <= most, took


def test_a_real_sdk_reads_the_stream_that_is_served(recorded: Path) -> None:
    server = Server(recorded, "m2aaaa", "--as-fast-as-possible")
    with (
        httpx.Client(trust_env=False) as plain,
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="other-key", max_retries=0, http_client=plain) as client,
    ):
        events = client.chat.completions.create(
            model="small",
            stream=True,
            messages=[{"role": "user", "content": "Hello"}],
            user="5a2c8a3e-8f0d-4f7a-9a51-0d8b2d2b6a11",
        )
        text = "".join(event.choices[0].delta.content or "" for event in events)
        assert text == "".join(WORDS)
        with pytest.raises(
            openai.ConflictError,
            match=r"exchange 2 .*/messages/0/content, word 1: recorded Refund order #18, now Return order #18",
        ):
            client.chat.completions.create(
                model="small",
                stream=True,
                messages=[{"role": "user", "content": "Return order #18"}],
                user="5a2c8a3e-8f0d-4f7a-9a51-0d8b2d2b6a12",
            )
    server.process.terminate()
    code, told = server.end()
    assert (code, told[-1]["served"], told[-1]["diverged"]) == (1, 1, 1)


def test_an_agent_that_asks_otherwise_hears_why(recorded: Path, tmp_path: Path) -> None:
    server = Server(recorded, "m1aaaa", "--as-fast-as-possible", "--once")
    again = Folder(tmp_path / "runs")
    with running(server.url, again.transcripts, variant="another-prompt") as agent:
        (answer,) = again.ask(agent, "m9", ["Refund order #17"])
    assert answer.status_code == 502
    assert "recorded Refund order #17, now Reimburse order #17" in answer.json()["error"]
    code, told = server.end()
    assert (code, told[-1]["diverged"]) == (1, 1)


def test_attempts_that_failed_fail_again(recorded: Path) -> None:
    server = Server(recorded, "m1aaaa", "--as-fast-as-possible")
    with httpx.Client(base_url=server.url, trust_env=False) as client:
        body = {
            "model": "small",
            "stream": True,
            "messages": [{"role": "user", "content": "Refund order #17"}],
            "user": "5a2c8a3e-8f0d-4f7a-9a51-0d8b2d2b6a11",
        }
        assert client.post("/v1/chat/completions", json=body).status_code == 200
        refund = {"order": 17, "amount": 20, "key": "5a2c8a3e-8f0d-4f7a-9a51-0d8b2d2b6a11"}
        assert [client.post("/tool/refund", json=refund).status_code for _ in range(2)] == [503, 200]
        assert client.post("/v1/chat/completions", json=body).status_code == 200  # behind the last it begins again
    server.process.terminate()
    _, told = server.end()
    assert told[-1]["rounds"] == 1


def test_a_person_reads_a_mission_and_draws_some(recorded: Path) -> None:
    ran = drillmaster("transcript", "show", "runs/20261204T160000Z-1a2b", "m1aaaa", cwd=recorded)
    assert ran.returncode == 0
    for word in (
        "USER",
        "MODEL REQUEST",
        "MODEL RESPONSE",
        "TOOL CALL",
        "tool=refund",
        "ANSWER status=200",
        "ENDED lines=",
    ):
        assert word in ran.stdout
    drawn = said(
        drillmaster("transcript", "draw", "runs/20261204T160000Z-1a2b", "--count", "2", "--json", cwd=recorded)
    )
    assert (drawn["of"], drawn["seed"], len(drawn["missions"])) == (3, "7", 2)


@pytest.mark.parametrize(
    ("words", "said_"),
    [
        (["replay", "m1aaaa"], "give --url URL to ask again, or --serve"),
        (["replay", "m1aaaa", "--serve", "--url", "http://127.0.0.1:1"], "give --url URL to ask again, or --serve"),
        (["replay", "m1aaaa", "--url", "http://192.0.2.1:1"], "192.0.2.1, which is not loopback"),
        (["replay", "m1aaaa", "--url", "http://127.0.0.1:1", "--once"], "go with --serve"),
        (["replay", "m1aaab", "--run", "runs/20261204T160000Z-1a2b", "--serve"], "did you mean m1aaaa?"),
        (["replay", "m7", "--serve"], "no run that started mission m7"),
        (["replay", "m1aaaa", "--url", "ftp://x"], "wanted the base URL of the agent"),
        (
            ["replay", "m1aaaa", "--url", "http://127.0.0.1:1", "--header", "Authorization: Bearer abc"],
            "a credential in the plan",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_what_to_do(recorded: Path, words: list[str], said_: str) -> None:
    ran = drillmaster(*words, cwd=recorded)
    assert (ran.returncode, "Traceback" in ran.stderr) == (2, False)
    assert said_ in " ".join(ran.stderr.split())


def test_an_agent_that_is_not_there_is_the_difference(recorded: Path) -> None:
    ran = drillmaster("replay", "m1aaaa", "--url", "http://127.0.0.1:9", "--json", cwd=recorded)
    told = said(ran)
    assert (ran.returncode, told["difference"]["what"], told["difference"]["now"]) == (1, "status", "none")
    assert "ConnectionRefusedError" in told["trouble"][0]


@pytest.mark.parametrize(
    ("words", "where"),
    [
        (["I will refund", " order #17."], None),
        (["I will not refund", " order #17."], "/choices/0/delta/content, word 3"),
    ],
)
def test_an_answer_that_streams_is_compared_as_a_whole(
    tmp_path: Path, upstream: Upstream, words: list[str], where: str | None
) -> None:
    folder = Folder(tmp_path / "runs")
    folder.events.write("mission_started", mission="m5aaaa", flow="f", entry="http", due_ns=0, slot=0)
    name = f"chatcmpl-{uuid.uuid4().hex}"
    deltas: list[dict[str, Any]] = [{"index": 0, "delta": {"content": word}, "finish_reason": None} for word in words]
    deltas.append({"index": 0, "delta": {}, "finish_reason": "stop"})
    events = [f"data: {json.dumps({'id': name, 'choices': [one]})}\n\n" for one in deltas] + ["data: [DONE]\n\n"]
    lines: list[dict[str, Any]] = [
        {"kind": "started", "entry": "http"},
        {"kind": "user", "method": "POST", "url": "/agent/stream?key=****", "body": '{"q":"Refund order #17"}'},
        {"kind": "answer", "status": 200, "chunks": [[n * 10, event] for n, event in enumerate(events)]},
        {"kind": "ended", "lines": 4, "ok": True},
    ]
    said_ = [
        {"t": "2026-12-04T16:00:01Z", "mission": "m5aaaa", "run": RUN, "seq": n, **line} for n, line in enumerate(lines)
    ]
    (folder.transcripts / "other.ndjson").write_text("".join(json.dumps(line) + "\n" for line in said_))
    folder.seal()
    ran = drillmaster("replay", "m5aaaa", "--url", upstream.url, "--json", cwd=tmp_path)
    found = said(ran)["difference"]
    assert (ran.returncode, found and found["where"]) == (0 if where is None else 1, where)
    assert upstream.asked == ["/agent/stream?key=****"]
