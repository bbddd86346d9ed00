"""The tool calls of a model's answer, judged: OpenAI's Chat Completions and Responses, Anthropic's Messages.

```python
answer = client.chat.completions.create(model=..., messages=messages, tools=offered)
for call in chat_calls(desk, answer):
    if isinstance(call, Denied):
        messages.append(call.reply)      # the model is told that it was denied, and why, and nothing else
    else:
        messages.append(call.reply(run(call.tool, call.arguments)))
```

1. Each call of an answer gets one answer, in the order of the answer: `Allowed` with the arguments as they were read and judged, or
   `Denied` with a message of the API's own form. No argument, and no text of the model's, is in a denial.
2. Arguments are read by strict rules from the text that came. Anthropic's SDK hands over what it has read already; give `raw`, the
   bytes of the HTTP answer, or `streamed`, and they are read from there. Without either a name that stood there twice cannot be
   seen.
3. An answer that was cut off (`length`, `max_tokens`, `incomplete`) is one whose calls are not whole: all of them are denied.
4. An id that was there before is denied: two results for one id are told apart by nobody.
5. What the provider runs itself (searches, its own containers) is not a call of ours. What it asks the worker to run without a
   contract (shells, patches, free text, approvals) is denied.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from drillmaster import strict
from drillmaster.adapters.worker.tools import Asked, ToolSession
from drillmaster.errors import Problem
from drillmaster.guards import Decision
from drillmaster.guards.tools import REASONS

__all__ = [
    "Allowed",
    "Denied",
    "Desk",
    "StreamedInputs",
    "anthropic_calls",
    "chat_calls",
    "offered_by_anthropic",
    "offered_by_chat",
    "offered_by_responses",
    "response_calls",
]

_MOST_IDS = 100_000
"""The newest; an id from before them is nobody's any more."""
_ANSWER_CAP_BYTES = 64 << 20
_Form = Literal["chat", "responses", "anthropic"]
_HANDED_OVER = frozenset(
    {
        "custom_tool_call", "local_shell_call", "shell_call", "apply_patch_call", "computer_call", "mcp_approval_request",
    }
)  # fmt: skip  # words
"""Items of a Response that ask the worker, and not the provider, to run something."""


class Allowed(msgspec.Struct, frozen=True, kw_only=True):
    """A call that may be made, with what it may be made with."""

    id: str
    tool: str
    arguments: dict[str, Any]
    decision: Decision
    session: ToolSession
    ticket: int
    form: _Form

    def reply(self, content: str) -> dict[str, Any]:
        """Give the message that hands the tool's result back to the model."""
        return _reply(self.form, self.id, content, denied=False)


class Denied(msgspec.Struct, frozen=True, kw_only=True):
    """A call that may not be made; `reply` is what to hand back to the model in its place."""

    id: str
    decision: Decision
    reply: dict[str, Any]


class Desk:
    """Which session a tool's name belongs to. A name that two of them have belongs to none: it is denied."""

    def __init__(self, sessions: Iterable[ToolSession]) -> None:
        self.sessions = tuple(sessions)
        if not self.sessions:
            raise Problem("tools", found="no session", wanted="one for each server", remedy="Desk([ToolSession(...)])")
        self._ids: dict[str, None] = {}

    def judge(self, call_id: object, tool: object, arguments: object, **more: Any) -> tuple[ToolSession, Asked]:
        """Judge one call by the session that has its name."""
        repeated = not isinstance(call_id, str) or not call_id or call_id in self._ids
        if isinstance(call_id, str):
            self._ids[call_id] = None
            if len(self._ids) > _MOST_IDS:
                del self._ids[next(iter(self._ids))]
        having = [one for one in self.sessions if isinstance(tool, str) and one.has(tool)]
        session = having[0] if having else self.sessions[0]
        if len(having) > 1:
            return session, session.call("", arguments, repeated=repeated, **more)
        return session, session.call(tool, arguments, repeated=repeated, **more)


def chat_calls(desk: Desk, answer: Any) -> list[Allowed | Denied]:
    """Judge the calls of a `ChatCompletion` of one choice, or of one `Choice`. Raises Problem for more than one."""
    choices = (_of(answer, "choices") or []) if hasattr(answer, "choices") else [answer]
    if len(choices) != 1:
        raise Problem(
            "tools",
            found=f"{len(choices)} choices",
            wanted="one, whose calls are then made",
            remedy="ask for n=1, or hand over the choice that was taken",
        )
    choice = choices[0]
    finished = _of(choice, "finish_reason") in ("tool_calls", "function_call", "stop")
    message = _of(choice, "message")
    found: list[Allowed | Denied] = []
    for call in _of(message, "tool_calls") or ():
        function = _of(call, "function") if _of(call, "type") == "function" else None
        found.append(
            _judged(
                desk,
                "chat",
                _of(call, "id"),
                _of(function, "name"),
                _of(function, "arguments"),
                finished=finished,
                kind_known=function is not None,
            )
        )
    if _of(message, "function_call") is not None:  # of before there were ids
        found.append(_judged(desk, "chat", "", None, None, finished=finished, kind_known=False))
    return found


def response_calls(desk: Desk, answer: Any) -> list[Allowed | Denied]:
    """Judge the calls of a `Response`."""
    found: list[Allowed | Denied] = []
    for item in _of(answer, "output") or ():
        kind = _of(item, "type")
        if kind != "function_call" and kind not in _HANDED_OVER:
            continue
        known = kind == "function_call"
        finished = _of(answer, "status") == "completed" and _of(item, "status") in (None, "completed")
        call_id = _of(item, "id" if kind == "mcp_approval_request" else "call_id")
        told = _judged(
            desk,
            "responses",
            call_id,
            _of(item, "name") if known else None,
            _of(item, "arguments") if known else None,
            finished=finished,
            kind_known=known,
        )
        if isinstance(told, Denied) and not known:
            told = msgspec.structs.replace(told, reply=_handed_back(kind, told))
        found.append(told)
    return found


class StreamedInputs:
    """The arguments of a stream's calls as they came: hand each event of the stream to `see`, and this to `anthropic_calls`."""

    def __init__(self) -> None:
        self._blocks: dict[int, tuple[str, str, list[str]]] = {}
        self._size = 0

    def see(self, event: Any) -> None:
        """Take in one event; those that are about nothing of ours are passed over."""
        kind, at = _of(event, "type"), _of(event, "index")
        if kind == "content_block_start" and isinstance(at, int):
            block = _of(event, "content_block")
            self._blocks[at] = (str(_of(block, "id")), str(_of(block, "name")), [])
        elif kind == "content_block_delta" and at in self._blocks:
            text = _of(_of(event, "delta"), "partial_json")
            if isinstance(text, str) and self._size < _ANSWER_CAP_BYTES:
                self._size += len(text)
                self._blocks[at][2].append(text)

    def texts(self) -> dict[tuple[int, str, str], Any]:
        """Give the text of each block. A call without arguments has no text, which stands for none."""
        return {(at, id_, name): "".join(parts) or "{}" for at, (id_, name, parts) in self._blocks.items()}


def anthropic_calls(
    desk: Desk, answer: Any, *, raw: bytes | None = None, streamed: StreamedInputs | None = None
) -> list[Allowed | Denied]:
    """Judge the calls of a `Message`. `raw` is the body of the HTTP answer that it was read from, or `streamed` its stream: rule 2.

    `client.messages.with_raw_response.create(...)` has both: `.parse()`, and `.http_response.content`.
    """
    inputs = None if raw is None else _inputs(raw)
    if streamed is not None:
        inputs = streamed.texts()
    finished = _of(answer, "stop_reason") in ("tool_use", "end_turn", "stop_sequence", "pause_turn")
    found = []
    for at, block in enumerate(_of(answer, "content") or ()):
        if _of(block, "type") == "tool_use":
            id_, name = _of(block, "id"), _of(block, "name")
            given = _of(block, "input") if inputs is None else inputs.get((at, str(id_), str(name)))
            found.append(_judged(desk, "anthropic", id_, name, given, finished=finished, kind_known=True))
    return found


def _of(value: Any, name: str) -> Any:
    """Give a field of an SDK's object. SDKs check no answer: what the server left out is not there, and a field may be anything."""
    return getattr(value, name, None)


def _inputs(raw: bytes) -> dict[tuple[int, str, str], Any]:
    """Read the blocks of an answer by strict rules; what cannot be read so has none."""
    try:
        value = strict.load(raw, place="answer", fmt="json", cap_bytes=_ANSWER_CAP_BYTES)
    except Problem:
        return {}
    blocks = value.get("content") if isinstance(value, dict) else None
    return {
        (at, block["id"], block["name"]): block.get("input")
        for at, block in enumerate(blocks if isinstance(blocks, list) else ())
        if isinstance(block, dict) and isinstance(block.get("id"), str) and isinstance(block.get("name"), str)
    }


def _judged(
    desk: Desk, form: _Form, call_id: object, tool: object, arguments: object, *, finished: bool, kind_known: bool
) -> Allowed | Denied:
    session, asked = desk.judge(call_id, tool, arguments, finished=finished, kind_known=kind_known)
    named = call_id if isinstance(call_id, str) else ""
    if asked.arguments is None or not isinstance(tool, str):
        reason = asked.decision.reason
        told = f"denied ({reason}): {REASONS[reason]}"
        return Denied(id=named, decision=asked.decision, reply=_reply(form, named, told, denied=True))
    return Allowed(
        id=named,
        tool=tool,
        arguments=asked.arguments,
        decision=asked.decision,
        session=session,
        ticket=asked.ticket,
        form=form,
    )


def _reply(form: _Form, call_id: str, content: str, *, denied: bool) -> dict[str, Any]:
    if form == "chat":
        return {"role": "tool", "tool_call_id": call_id, "content": content}
    if form == "responses":
        return {"type": "function_call_output", "call_id": call_id, "output": content}
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **({"is_error": True} if denied else {})}


def _handed_back(kind: str, told: Denied) -> dict[str, Any]:
    """Say no in the form that the item wants."""
    content = told.reply["output"]
    if kind == "mcp_approval_request":
        return {"type": "mcp_approval_response", "approval_request_id": told.id, "approve": False, "reason": content}
    if kind == "custom_tool_call":
        return {"type": "custom_tool_call_output", "call_id": told.id, "output": content}
    if kind == "apply_patch_call":
        return {"type": "apply_patch_call_output", "call_id": told.id, "status": "failed", "output": content}
    if kind == "shell_call":
        outcome = {"stdout": "", "stderr": content, "outcome": {"type": "exit", "exit_code": 126}}
        return {"type": "shell_call_output", "call_id": told.id, "output": [outcome]}
    return told.reply


# What a worker offers, in the words of a server's list: for functions of its own that no server offers.


def offered_by_chat(tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Write the `tools` of a Chat Completions request as a server would offer them; what is no function stays as it is."""
    return [_as_tool(one.get("function"), "parameters") or dict(one) for one in tools]


def offered_by_responses(tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Write the `tools` of a Responses request as a server would offer them; what is no function stays as it is."""
    return [(_as_tool(one, "parameters") if one.get("type") == "function" else None) or dict(one) for one in tools]


def offered_by_anthropic(tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Write the `tools` of a Messages request as a server would offer them; what is no tool of the worker's stays as it is."""
    return [
        (_as_tool(one, "input_schema") if one.get("type") in (None, "custom") else None) or dict(one) for one in tools
    ]


def _as_tool(said: Any, schema: str) -> dict[str, Any] | None:
    return None if not isinstance(said, Mapping) else dict(_renamed(said, schema))


def _renamed(said: Mapping[str, Any], schema: str) -> Iterator[tuple[str, Any]]:
    for name, value in said.items():
        if name == schema:
            yield "inputSchema", value
        elif name != "type" and not (name == "strict" and value is None):
            yield name, value
