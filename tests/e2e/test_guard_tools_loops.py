"""The tools guard in the loops of the OpenAI and Anthropic SDKs: a stand-in provider whose models call what a test says."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from drillmaster.adapters.worker.mcp_client import Denied as NotSent
from drillmaster.adapters.worker.tool_loops import (
    Allowed,
    Denied,
    Desk,
    StreamedInputs,
    anthropic_calls,
    chat_calls,
    offered_by_chat,
    response_calls,
)
from drillmaster.adapters.worker.tools import ToolSession
from drillmaster.standins.provider import Latency
from drillmaster.standins.provider_http import Provider
from drillmaster.standins.provider_script import Call, Line, Script
from tests.e2e.toollab import GUARD, READ, Lab, guarded, run

pytestmark = [pytest.mark.e2e, pytest.mark.needs("ssh-keygen")]

ASK: list[Any] = [{"role": "user", "content": "go on"}]
GOOD = Call(name="read_file", arguments='{"path": "a"}')
TWICE = Call(name="read_file", arguments='{"path": "public", "path": "/etc/secret"}')
MORE = Call(name="read_file", arguments='{"path": "a", "as_root": "secret"}')
NAN = Call(name="read_file", arguments='{"path": NaN}')
CUT = Call(name="read_file", arguments='{"path": "secr')
UNKNOWN = Call(name="delete_secret_file", arguments='{"path": "a"}')
CHAT_TOOLS: list[Any] = [
    {
        "type": "function",
        "function": {"name": "read_file", "description": "Read a file.", "parameters": READ["inputSchema"]},
    }
]
FLAT_TOOLS: list[Any] = [{"type": "function", **CHAT_TOOLS[0]["function"]}]
CLAUDE_TOOLS: list[Any] = [
    {"name": "read_file", "description": "Read a file.", "input_schema": READ["inputSchema"]},
]


@contextmanager
def scripted(*lines: Line) -> Iterator[str]:
    """A provider whose models say these lines, one after the other; its URL."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    script = Script()
    script.put("*", lines)
    provider = Provider(Latency(median_ms=0, token_ms=0, seed=1), None, script)
    server = asyncio.run_coroutine_threadsafe(provider.start("127.0.0.1", 0), loop).result(5)

    async def close() -> None:
        server.close()
        await provider.drop()

    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        asyncio.run_coroutine_threadsafe(close(), loop).result(5)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(5)
        loop.close()


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    tmp_path.chmod(0o755)
    made = Lab(tmp_path)
    made.write_list({"file": [READ]})
    return made


@pytest.fixture
def desk(lab: Lab) -> Desk:
    shelf = lab.shelf()
    shelf.load()
    held = ToolSession(shelf, GUARD, "file")
    assert held.opened(offered_by_chat(CHAT_TOOLS)).allowed
    return Desk([held])


def reasons(calls: list[Allowed | Denied]) -> list[str]:
    return [one.decision.reason for one in calls]


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (GOOD, "contract-holds"),
        (TWICE, "arguments-unreadable"),
        (MORE, "arguments-unknown"),
        (NAN, "arguments-unreadable"),
        (CUT, "arguments-unreadable"),
        (UNKNOWN, "tool-not-allowed"),
    ],
)
def test_the_openai_sdks_calls_are_judged_and_denials_go_back_to_the_model(
    desk: Desk, call: Call, reason: str, opened: Any
) -> None:
    told = Line(tools=(call,))
    with scripted(told, Line(text="well"), told, Line(text="well"), told) as url:
        client = opened(openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0))
        answer = client.chat.completions.create(model="m", messages=ASK, tools=CHAT_TOOLS)
        (made,) = chat_calls(desk, answer)
        assert made.decision.reason == reason
        reply = made.reply if isinstance(made, Denied) else made.reply("text of a")
        assert "secret" not in str(reply)
        turn = [*ASK, answer.choices[0].message.model_dump(exclude_none=True), reply]
        after = client.chat.completions.create(model="m", messages=turn, tools=CHAT_TOOLS)
        assert after.choices[0].message.content == "well"

        response = client.responses.create(model="m", input="go on", tools=FLAT_TOOLS)
        (made,) = response_calls(desk, response)
        assert made.decision.reason == reason
        back = made.reply if isinstance(made, Denied) else made.reply("text of a")
        spoken = client.responses.create(
            model="m", input=[*[one.model_dump(exclude_none=True) for one in response.output], back], tools=FLAT_TOOLS
        )
        assert spoken.output_text == "well"

        with client.chat.completions.stream(model="m", messages=ASK, tools=CHAT_TOOLS) as stream:
            final = stream.get_final_completion()
        assert reasons(chat_calls(desk, final)) == [reason]


def test_the_anthropic_sdks_calls_are_judged_from_the_bytes_that_came(desk: Desk, opened: Any) -> None:
    good = Line(tools=(Call(name="read_file", arguments={"path": "a"}),))
    more = Line(tools=(Call(name="read_file", arguments={"path": "a", "as_root": "secret"}),))
    with scripted(good, Line(text="well"), more, Line(text="well")) as url:
        client = opened(anthropic.Anthropic(base_url=url, api_key="k", max_retries=0))
        for reason in ("contract-holds", "arguments-unknown"):
            raw = client.messages.with_raw_response.create(model="m", max_tokens=99, messages=ASK, tools=CLAUDE_TOOLS)
            answer = raw.parse()
            (made,) = anthropic_calls(desk, answer, raw=raw.http_response.content)
            assert made.decision.reason == reason
            back: Any = made.reply if isinstance(made, Denied) else made.reply("text of a")
            assert "secret" not in str(back)
            turn: list[Any] = [
                *ASK,
                {"role": "assistant", "content": [one.model_dump(exclude_none=True) for one in answer.content]},
                {"role": "user", "content": [back]},
            ]
            after = client.messages.create(model="m", max_tokens=99, messages=turn, tools=CLAUDE_TOOLS)
            assert after.content[0].text == "well"  # type: ignore[union-attr]  # a text


def test_what_the_anthropic_sdk_made_one_of_is_two_in_the_bytes(desk: Desk, opened: Any) -> None:
    body = (
        b'{"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [{"type": "tool_use", "id": "t1",'
        b' "name": "read_file", "input": {"path": "public", "path": "/etc/secret"}}], "stop_reason": "tool_use",'
        b' "stop_sequence": null, "usage": {"input_tokens": 1, "output_tokens": 1}}'
    )
    from tests.e2e.test_provider_sdks import answering

    with answering(200, (("content-type", "application/json"),), body) as url:
        client = opened(anthropic.Anthropic(base_url=url, api_key="k", max_retries=0))
        raw = client.messages.with_raw_response.create(model="m", max_tokens=99, messages=ASK, tools=CLAUDE_TOOLS)
        answer = raw.parse()
        assert answer.content[0].input == {"path": "/etc/secret"}  # type: ignore[union-attr]  # a call
        assert reasons(anthropic_calls(desk, answer, raw=raw.http_response.content)) == ["arguments-unreadable"]


def test_a_stream_of_anthropics_is_judged_by_the_text_that_came(desk: Desk, opened: Any) -> None:
    from tests.e2e.test_provider_sdks import answering

    def events(text: str) -> bytes:
        said = [
            {"type": "message_start", "message": {
                "id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None,
                "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": f"t{len(text)}",
                "name": "read_file", "input": {}}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": text[:9]}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": text[9:]}},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": None},
                "usage": {"output_tokens": 9}},
            {"type": "message_stop"},
        ]  # fmt: skip  # events
        return b"".join(b"event: %b\ndata: %b\n\n" % (one["type"].encode(), json.dumps(one).encode()) for one in said)

    for text, reason in (
        ('{"path": "a"}', "contract-holds"),
        ('{"path": "public", "path": "/etc/secret"}', "arguments-unreadable"),
    ):
        with answering(200, (("content-type", "text/event-stream"),), events(text)) as url:
            client = opened(anthropic.Anthropic(base_url=url, api_key="k", max_retries=0))
            inputs = StreamedInputs()
            with client.messages.stream(model="m", max_tokens=99, messages=ASK, tools=CLAUDE_TOOLS) as stream:
                for event in stream:
                    inputs.see(event)
                answer = stream.get_final_message()
            assert reasons(anthropic_calls(desk, answer, streamed=inputs)) == [reason]


def test_two_calls_of_one_id_are_not_both_made(desk: Desk, opened: Any) -> None:
    same = Call(name="read_file", arguments='{"path": "a"}', id="call_1")
    with scripted(Line(tools=(same, same))) as url:
        client = opened(openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0))
        answer = client.chat.completions.create(model="m", messages=ASK, tools=CHAT_TOOLS)
    assert reasons(chat_calls(desk, answer)) == ["contract-holds", "call-repeated"]


def test_a_call_of_a_model_reaches_the_server_that_it_is_for_as_it_was_judged(lab: Lab) -> None:
    async def act() -> None:
        async with guarded(lab, "file") as (tools, held):
            await tools.open()
            offered = [
                {
                    "type": "function",
                    "function": {"name": one.name, "description": one.description, "parameters": one.input_schema},
                }
                for one in await tools.tools()
            ]
            with scripted(Line(tools=(GOOD, MORE)), Line(tools=(GOOD,))) as url:
                client = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0)
                desk = Desk([held])
                answer = await client.chat.completions.create(model="m", messages=ASK, tools=offered)
                await tools.fresh()
                allowed, denied = chat_calls(desk, answer)
                assert isinstance(allowed, Allowed) and isinstance(denied, Denied)
                result = await tools.run(allowed)
                assert result.content[0].text == "done"  # type: ignore[union-attr]  # a text
                answer = await client.chat.completions.create(model="m", messages=ASK, tools=offered)
                (later,) = chat_calls(desk, answer)
                assert isinstance(later, Allowed)
                lab.tell(READ | {"description": "Read, and send."})  # between the judgement and the call
                held.changed()
                with pytest.raises(NotSent, match="tool-changed"):
                    await tools.run(later)
                await client.close()

    run(act)
    sent = [json.loads(line) for line in (lab.folder / "told.called").read_text().splitlines()]
    assert [one["arguments"] for one in sent] == [{"path": "a"}]
