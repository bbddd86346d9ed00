"""Tool calls of real SDKs' answers, judged: the SDKs' own types, and a list in memory."""

import json
from pathlib import Path
from typing import Any

import pytest
from anthropic.types import Message
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

from drillmaster.adapters.worker.recording import Recorder
from drillmaster.adapters.worker.tool_loops import (
    Allowed,
    Denied,
    Desk,
    anthropic_calls,
    chat_calls,
    offered_by_anthropic,
    offered_by_chat,
    offered_by_responses,
    response_calls,
)
from drillmaster.adapters.worker.tools import Shelf, SignedList, ToolSession
from drillmaster.clock import ManualClock
from drillmaster.errors import Problem
from drillmaster.gates._cases.tools import LIMITS
from drillmaster.gates.tools import Listing
from drillmaster.guards.tools import Tools
from drillmaster.strict import digest

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
WIRE = {"name": "repo_read", "description": "Read a file.", "inputSchema": SCHEMA}
CONTRACT = {
    "name": "repo_read",
    "server": "own",
    "origin": "human",
    "signed_by": "operator.local",
    "privileges": ["fs.read"],
    "inputSchema": SCHEMA,
    "wire_sha256": digest(WIRE),
}
GUARD = Tools(
    privileges=("fs.read",),
    granted=("fs.read",),
    wire="pinned",
    max_compared_ms=1_000,
    max_arguments_bytes=1_000,
    max_calls=50,
)


class Loaded(Shelf):
    """A shelf whose list was loaded elsewhere."""

    def __init__(self, *contracts: Any) -> None:
        value = {"kind": "tool-allowlist", "version": 1, "servers": [], "tools": list(contracts)}
        self.gate = LIMITS
        self._list = SignedList(
            listing=Listing(place="tools.allow.json", value=value), sha256=digest(value), signers=("operator.local",)
        )


def session(*contracts: Any, server: str = "own", offered: Any = (WIRE,), clock: Any = None) -> ToolSession:
    made = ToolSession(
        Loaded(*(contracts or (CONTRACT,))), GUARD, server, clock=clock or ManualClock(), log=lambda *_: None
    )
    assert made.opened(list(offered)).allowed
    return made


def chat(*calls: tuple[str, str, str], finish: str = "tool_calls", **message: Any) -> ChatCompletion:
    told = [{"id": id_, "type": "function", "function": {"name": name, "arguments": text}} for id_, name, text in calls]
    choice = {
        "index": 0,
        "finish_reason": finish,
        "message": {"role": "assistant", "content": None, "tool_calls": told, **message},
    }
    return ChatCompletion.model_validate(
        {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    )


def response(*items: dict[str, Any], status: str = "completed") -> Response:
    return Response.model_construct(
        id="r", status=status, output=Response.model_validate(
            {
                "id": "r", "object": "response", "created_at": 1, "model": "m", "status": status, "output": list(items),
                "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
            }
        ).output,
    )  # fmt: skip  # fields, a line at a time


def item(call_id: str, name: str, text: str, **more: Any) -> dict[str, Any]:
    return {"type": "function_call", "id": "fc", "call_id": call_id, "name": name, "arguments": text, **more}


def message(*blocks: tuple[str, str, Any], stop: str = "tool_use") -> Message:
    content = [{"type": "tool_use", "id": id_, "name": name, "input": given} for id_, name, given in blocks]
    value = {
        "id": "m", "type": "message", "role": "assistant", "model": "m", "content": content, "stop_reason": stop,
        "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1},
    }  # fmt: skip  # fields
    return Message.model_validate(value)


def reasons(calls: list[Allowed | Denied]) -> list[str]:
    return [one.decision.reason for one in calls]


def test_a_chat_call_that_holds_has_its_arguments_parsed() -> None:
    (call,) = chat_calls(Desk([session()]), chat(("c1", "repo_read", '{"path": "a"}')))
    assert isinstance(call, Allowed)
    assert (call.tool, call.arguments) == ("repo_read", {"path": "a"})
    assert call.reply("text") == {"role": "tool", "tool_call_id": "c1", "content": "text"}


def test_a_response_call_that_holds_has_its_arguments_parsed() -> None:
    (call,) = response_calls(Desk([session()]), response(item("c1", "repo_read", '{"path": "a"}')))
    assert isinstance(call, Allowed)
    assert call.arguments == {"path": "a"}
    assert call.reply("text") == {"type": "function_call_output", "call_id": "c1", "output": "text"}


def test_an_anthropic_call_that_holds_has_its_arguments_parsed() -> None:
    (call,) = anthropic_calls(Desk([session()]), message(("t1", "repo_read", {"path": "a"})))
    assert isinstance(call, Allowed)
    assert call.arguments == {"path": "a"}
    assert call.reply("text") == {"type": "tool_result", "tool_use_id": "t1", "content": "text"}


TEXTS = [
    ('{"path": "secret-a", "path": "secret-b"}', "arguments-unreadable"),
    ('{"path": NaN}', "arguments-unreadable"),
    ('{"path": "secret', "arguments-unreadable"),
    ("", "arguments-unreadable"),
    ('["secret"]', "arguments-unreadable"),
    ('{"path": "secret", "sudo": "secret"}', "arguments-unknown"),
    ('{"path": {"secret": 1}}', "arguments-unknown"),
    ('{"path": ["secret"]}', "arguments-misfit"),
    ("{}", "arguments-misfit"),
    (json.dumps({"path": "secret" * 1_000}), "arguments-too-large"),
    (json.dumps({"path": "a", "n": 2**53}), "arguments-unreadable"),
]


@pytest.mark.parametrize(("text", "reason"), TEXTS)
def test_arguments_that_no_contract_has_are_denied_without_them(text: str, reason: str) -> None:
    for calls in (
        chat_calls(Desk([session()]), chat(("c1", "repo_read", text))),
        response_calls(Desk([session()]), response(item("c1", "repo_read", text))),
        anthropic_calls(
            Desk([session()]),
            message(("c1", "repo_read", {})),
            raw=b'{"content": [{"type": "tool_use", "id": "c1", "name": "repo_read", "input": %b}]}' % text.encode(),
        ),
    ):
        (call,) = calls
        assert isinstance(call, Denied)
        wanted = "arguments-unreadable" if reason == "arguments-unreadable" else reason
        assert call.decision.reason == wanted
        assert "secret" not in str(call)
        assert call.id == "c1" and reason in str(call.reply)


def test_what_the_sdk_read_already_is_held_to_the_same_rules_as_far_as_it_shows() -> None:
    def told(given: Any) -> list[str]:
        answer = message(("t1", "repo_read", {}))
        answer.content[0].input = given  # type: ignore[union-attr]  # a call; SDKs check no answer
        return reasons(anthropic_calls(Desk([session()]), answer))

    assert told({"path": float("nan")}) == ["arguments-unreadable"]
    assert told({"path": "a", "x": 1}) == ["arguments-unknown"]
    assert told(["a"]) == ["arguments-unreadable"]
    assert told("a") == ["arguments-unreadable"]


def test_raw_bytes_of_another_answer_give_no_arguments() -> None:
    raw = b'{"content": [{"type": "tool_use", "id": "other", "name": "repo_read", "input": {"path": "a"}}]}'
    assert reasons(anthropic_calls(Desk([session()]), message(("t1", "repo_read", {"path": "a"})), raw=raw)) == [
        "arguments-unreadable"
    ]
    assert reasons(anthropic_calls(Desk([session()]), message(("t1", "repo_read", {"path": "a"})), raw=b"\xff")) == [
        "arguments-unreadable"
    ]


@pytest.mark.parametrize("finish", ["length", "content_filter"])
def test_calls_of_an_answer_that_was_cut_are_denied(finish: str) -> None:
    good = ("c1", "repo_read", '{"path": "a"}')
    assert reasons(chat_calls(Desk([session()]), chat(good, finish=finish))) == ["call-unfinished"]
    assert reasons(response_calls(Desk([session()]), response(item(*good), status="incomplete"))) == ["call-unfinished"]
    assert reasons(response_calls(Desk([session()]), response(item(*good, status="incomplete")))) == ["call-unfinished"]
    stopped = message(("t1", "repo_read", {"path": "a"}), stop="max_tokens")
    assert reasons(anthropic_calls(Desk([session()]), stopped)) == ["call-unfinished"]


def test_an_id_that_was_there_before_is_denied_also_in_a_later_answer() -> None:
    desk = Desk([session()])
    good = ("c1", "repo_read", '{"path": "a"}')
    assert reasons(chat_calls(desk, chat(good, good))) == ["contract-holds", "call-repeated"]
    assert reasons(chat_calls(desk, chat(good))) == ["call-repeated"]
    assert reasons(chat_calls(desk, chat(("", *good[1:])))) == ["call-repeated"]


def test_an_unknown_tool_is_told_by_reason_alone() -> None:
    for name, reason in (("ignore_rules", "tool-not-allowed"), ("Repo-Read", "tool-lookalike")):
        (call,) = chat_calls(Desk([session()]), chat(("c1", name, "{}")))
        assert isinstance(call, Denied)
        assert call.decision.reason == reason
        assert name not in str(call)


def test_what_asks_the_worker_to_run_something_without_a_contract_is_denied_in_its_own_form() -> None:
    shell = {"type": "local_shell_call", "id": "s", "call_id": "c1", "status": "completed",
             "action": {"type": "exec", "command": ["rm", "-rf", "/"], "env": {}}}  # fmt: skip  # one item
    free = {"type": "custom_tool_call", "id": "s", "call_id": "c2", "name": "repo_read", "input": "rm -rf /"}
    approval = {"type": "mcp_approval_request", "id": "c3", "name": "x", "server_label": "y", "arguments": "{}"}
    search = {"type": "web_search_call", "id": "w", "status": "completed", "action": {"type": "search", "query": "q"}}
    calls = response_calls(Desk([session()]), response(shell, free, approval, search))
    assert reasons(calls) == ["call-kind-unknown"] * 3  # the provider's own search is not ours to run
    assert [one.reply["type"] for one in calls if isinstance(one, Denied)] == [
        "function_call_output",
        "custom_tool_call_output",
        "mcp_approval_response",
    ]
    assert calls[2].reply["approve"] is False  # type: ignore[index]  # a denial, by the line above
    assert "rm -rf" not in str(calls)


def test_a_custom_tool_of_chat_and_the_old_function_call_are_denied() -> None:
    old = chat(function_call={"name": "repo_read", "arguments": '{"path": "a"}'})
    assert reasons(chat_calls(Desk([session()]), old)) == ["call-kind-unknown"]
    custom = chat()
    custom.choices[0].message.tool_calls = [
        ChatCompletion.model_validate(
            {
                "id": "c", "object": "chat.completion", "created": 1, "model": "m",
                "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant", "content": None,
                    "tool_calls": [{"id": "c1", "type": "custom", "custom": {"name": "repo_read", "input": "rm"}}]}}],
            }
        ).choices[0].message.tool_calls[0]  # type: ignore[index]  # there is one
    ]  # fmt: skip  # fields
    assert reasons(chat_calls(Desk([session()]), custom)) == ["call-kind-unknown"]


def test_answers_that_lack_what_they_should_have_raise_nothing_but_a_problem() -> None:
    desk = Desk([session()])
    bare = chat()
    bare.choices[0].message.tool_calls = [object()]  # type: ignore[list-item]  # what an SDK makes of odd JSON
    assert reasons(chat_calls(desk, bare)) == ["call-kind-unknown"]
    assert response_calls(desk, Response.model_construct(output=None)) == []
    assert anthropic_calls(desk, Message.model_construct(content=None)) == []
    with pytest.raises(Problem, match="0 choices"):
        chat_calls(desk, ChatCompletion.model_construct(choices=None))


def test_two_choices_are_two_answers() -> None:
    answer = chat(("c1", "repo_read", '{"path": "a"}'))
    answer.choices.append(answer.choices[0])
    with pytest.raises(Problem, match="2 choices"):
        chat_calls(Desk([session()]), answer)
    assert reasons(chat_calls(Desk([session()]), answer.choices[0])) == ["contract-holds"]


def test_a_name_that_two_servers_have_belongs_to_none() -> None:
    both = (CONTRACT, CONTRACT | {"server": "other"})
    desk = Desk([session(*both), session(*both, server="other")])
    assert reasons(chat_calls(desk, chat(("c1", "repo_read", '{"path": "a"}')))) == ["tool-not-allowed"]


def test_calls_go_to_the_session_that_has_the_name() -> None:
    other = {**WIRE, "name": "repo_list"}
    contract = {**CONTRACT, "name": "repo_list", "server": "other", "wire_sha256": digest(other)}
    one = session(CONTRACT, contract)
    two = session(CONTRACT, contract, server="other", offered=(other,))
    calls = chat_calls(
        Desk([one, two]), chat(("c1", "repo_list", '{"path": "a"}'), ("c2", "repo_read", '{"path": "a"}'))
    )
    assert [call.session for call in calls if isinstance(call, Allowed)] == [two, one]


def test_what_a_worker_offers_is_compared_as_a_server_would_offer_it() -> None:
    function = {"name": "repo_read", "description": "Read a file.", "parameters": SCHEMA}
    assert offered_by_chat([{"type": "function", "function": function}]) == [WIRE]
    assert offered_by_responses([{"type": "function", **function}]) == [WIRE]
    assert offered_by_anthropic([{"name": "repo_read", "description": "Read a file.", "input_schema": SCHEMA}]) == [
        WIRE
    ]
    made = session()
    wider = function | {"description": "Read a file, or write it."}
    assert made.opened(offered_by_chat([{"type": "function", "function": wider}])).reason == "tool-changed"
    assert (
        session().opened(offered_by_responses([{"type": "function", **function}, {"type": "shell"}])).allowed is False
    )


def test_a_comparison_grows_old() -> None:
    clock = ManualClock()
    made = session(clock=clock)
    clock.advance(1)
    assert made.call("repo_read", {"path": "a"}).decision.allowed
    clock.advance(0.001)
    assert made.call("repo_read", {"path": "a"}).decision.reason == "listing-stale"


def test_a_call_is_redeemed_once_and_not_after_a_change() -> None:
    made = session()
    one, two = made.call("repo_read", {"path": "a"}), made.call("repo_read", {"path": "b"})
    assert made.redeem(one.ticket, "repo_read", {"path": "a"})
    assert not made.redeem(one.ticket, "repo_read", {"path": "a"})
    made.changed()
    assert not made.redeem(two.ticket, "repo_read", {"path": "b"})


@pytest.mark.parametrize(
    ("tool", "said"),
    [
        ("repo_read", {"path": "/etc/passwd"}),
        ("repo_read", {"path": "a", "x": 1}),
        ("other", {"path": "a"}),
        ("repo_read", {1: 2}),
    ],
)
def test_what_was_changed_behind_the_decision_is_not_redeemed(tool: str, said: Any) -> None:
    made = session()
    asked = made.call("repo_read", {"path": "a"})
    assert not made.redeem(asked.ticket, tool, said)
    assert not made.redeem(
        asked.ticket, "repo_read", {"path": "a"}
    )  # a ticket is taken once, whatever is shown with it


def test_a_change_that_came_while_the_answer_was_on_its_way_is_no_comparison() -> None:
    made = session()
    asked = made.round
    made.changed()
    assert made.opened([WIRE], asked_in=asked).reason == "not-compared"
    assert made.stale()
    assert made.opened([WIRE], asked_in=made.round).allowed


def test_what_the_caller_does_to_its_own_value_later_changes_nothing() -> None:
    schema = json.loads(json.dumps(SCHEMA))
    offered = {**WIRE, "inputSchema": schema}
    made = session(offered=(offered,))
    schema["properties"]["mode"] = {"type": "string"}
    assert made.call("repo_read", {"path": "a", "mode": "w"}).decision.reason == "arguments-unknown"
    assert made.allowed() == [WIRE]


def test_each_decision_is_counted_and_written_without_what_it_was_about(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "timeline.jsonl")
    made = ToolSession(Loaded(CONTRACT), GUARD, "own", clock=ManualClock(), log=lambda *_: None, recorder=recorder)
    made.opened([WIRE])
    made.call("repo_read", {"path": "secret-path"})
    made.call("secret_tool", {"path": "secret-path"})
    assert recorder.counts() == {
        ("tools", "tools", "server-holds", True): 1,
        ("tools", "tools", "contract-holds", True): 1,
        ("tools", "tools", "tool-not-allowed", False): 1,
    }
    assert "secret" not in (tmp_path / "timeline.jsonl").read_text()
