"""What the endpoint is sent: the prompt in the words of its API, frozen before the first call. Pure.

1. All that will be sent is worded before anything is, so that a digest can say what was asked, whoever is talked to.
2. A session is its turns in order. A later turn is a whole request of its own: what was asked before it, with the answers
   that the file has recorded, and its own prompt. A dialect without messages has sessions of whole bodies alone.
3. A form and a query are fields whose values are templates: the prompt, or a row's columns.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from drillmaster import strict
from drillmaster.dialects import load
from drillmaster.errors import Problem
from drillmaster.ladder import Asked, Messages
from drillmaster.ladder.payloads import Payload, Row, fill, names_in

__all__ = ["DIALECTS", "Frozen", "fixed_headers", "frozen", "payload_sha256"]

MAX_BYTES = 256 << 20
"""Of all bodies: a session's later turns repeat what was said before them."""
_ANTHROPIC_MAX_TOKENS = 1024

Body = dict[str, Any]
Said = Sequence[str]
"""Prompts and answers in turn; the last is the prompt that is asked."""


class Frozen(msgspec.Struct, frozen=True):
    """All that is sent, in the order of the set."""

    bodies: tuple[str, ...]
    """Of a GET: queries."""
    turns: tuple[int, ...] = ()
    """How many of the bodies each session has, in order; empty: every one is a call on its own."""


def _plain(asked: Asked, said: Said) -> Body:
    return {"prompt": said[-1]}


def _messages(said: Said, role: str = "assistant") -> list[Body]:
    return [{"role": role if at % 2 else "user", "content": text} for at, text in enumerate(said)]


def _chat(asked: Asked, said: Said) -> Body:
    body: Body = {"messages": _messages(said)}
    if asked.max_tokens is not None:
        body["max_tokens"] = asked.max_tokens
    if asked.stream:
        body |= {"stream": True}
        if asked.dialect != "mistral":  # which tells its usage unasked, and refuses what it does not know
            body["stream_options"] = {"include_usage": True}
    return body


def _responses(asked: Asked, said: Said) -> Body:
    body: Body = {"input": said[0] if len(said) == 1 else _messages(said)}
    if asked.max_tokens is not None:
        body["max_output_tokens"] = asked.max_tokens
    return {**body, "stream": True} if asked.stream else body


def _anthropic(asked: Asked, said: Said) -> Body:
    body: Body = {"max_tokens": asked.max_tokens or _ANTHROPIC_MAX_TOKENS, "messages": _messages(said)}
    return {**body, "stream": True} if asked.stream else body


def _gemini(asked: Asked, said: Said) -> Body:
    # Whether it is a stream stands in the URL, and so does the model.
    contents = [{"role": one["role"], "parts": [{"text": one["content"]}]} for one in _messages(said, "model")]
    body: Body = {"contents": contents}
    if asked.max_tokens is not None:
        body["generationConfig"] = {"maxOutputTokens": asked.max_tokens}
    return body


def _ollama(asked: Asked, said: Said) -> Body:
    body: Body = {"messages": _messages(said), "stream": asked.stream}
    if asked.max_tokens is not None:
        body["options"] = {"num_predict": asked.max_tokens}
    return body


DIALECTS: dict[str, Callable[[Asked, Said], Body]] = {
    "plain": _plain,
    "openai_chat": _chat,
    "openai_responses": _responses,
    "anthropic": _anthropic,
    "gemini": _gemini,
    "ollama": _ollama,
    "azure_openai": _chat,
    "groq": _chat,
    "mistral": _chat,
    "openrouter": _chat,
}
"""How each API is asked."""
NO_MODEL = frozenset({"plain", "gemini", "azure_openai"})
"""APIs whose body need not name a model: there is none, or the URL has it."""


def frozen(asked: Asked, payloads: Sequence[Payload] | None, *, place: str) -> Frozen:
    """Word all that is sent. `payloads` None: the prompt alone. `place`: where the dialect is named. Raises Problem."""
    if asked.method == "GET" and asked.query is None:
        return Frozen(("",))
    if payloads is not None:
        _names_a_column(asked, payloads)
    word = _fields if asked.form is not None or asked.query is not None else _speaker(asked, place)
    where = "form" if asked.form is not None else "query" if asked.query is not None else "the prompt"
    sessions = [_turns(one) for one in ([Payload(where, asked.prompt)] if payloads is None else payloads)]
    bodies: list[str] = []
    size = 0
    for payload in (turn for turns in sessions for turn in turns):
        bodies.append(word(asked, payload))
        size += len(bodies[-1])
        if size > MAX_BYTES:
            raise Problem(
                payload.place,
                found=f"over {MAX_BYTES >> 20} MB in all, with what each later turn repeats",
                wanted="less",
                remedy="take fewer lines or shorter sessions",
            )
    alone = payloads is None or not any(isinstance(one.value, list) for one in payloads)
    return Frozen(tuple(bodies), () if alone else tuple(len(turns) for turns in sessions))


def _turns(payload: Payload) -> list[Payload]:
    """The turns of a session, each with what was said before it; what is none is one turn."""
    place, value = payload
    if not isinstance(value, list):
        return [payload]
    if isinstance(value[0], dict):
        return [Payload(f"{place}: /{at}", one) for at, one in enumerate(value)]
    return [Payload(place, value[: at + 1]) for at in range(0, len(value), 2)]


def _speaker(asked: Asked, place: str) -> Callable[[Asked, Payload], str]:
    make = DIALECTS.get(asked.dialect)
    if make is None:
        load(asked.dialect)  # tells a wrong name from one that nothing can be asked in
        raise Problem(
            place,
            found=asked.dialect,
            wanted=f"one of {', '.join(DIALECTS)}",
            remedy="name the API that the endpoint speaks",
        )

    def word(asked: Asked, payload: Payload) -> str:
        value = payload.value
        number = ""
        if isinstance(value, list) and asked.dialect == "plain":
            raise Problem(
                payload.place,
                found="a session of prompts, and plain has no messages that could hold what was said before",
                wanted="a session of whole messages"
                if asked.is_websocket
                else "a dialect with messages, or a session of whole bodies",
                remedy="write [{...}, {...}], one whole message a turn"
                if asked.is_websocket
                else "name the API with --dialect (dialect in a plan), or write [{...}, {...}], one whole body a turn",
            )
        if isinstance(value, Row):
            number = _in_none_of(asked.prompt, *value.values())
            value = fill(asked.prompt, value, place=payload.place, number=number)
            if not value.strip():
                raise Problem(
                    payload.place, found="a row that leaves the prompt empty", wanted="text", remedy="leave the row out"
                )
        body = value if isinstance(value, dict) else make(asked, [value] if isinstance(value, str) else value)
        if asked.model is not None and "model" not in body:
            body = {"model": asked.model, **body}
        text = msgspec.json.encode(body).decode()
        # The engine puts the call's number wherever `{n}` stands: letters of a row that look like it are escaped.
        return text.replace("{n}", "\\u007bn}").replace(number, "{n}") if number else text

    return word


def _in_none_of(*texts: str) -> str:
    """Some text that is in none of these, and needs no escape in JSON."""
    mark = "\ue000"
    while any(mark in text for text in texts):
        mark += "\ue000"
    return f"{mark}n{mark}"


def _fields(asked: Asked, payload: Payload) -> str:
    """A form's or a query's fields, URL-encoded; where the call's number goes stays marked."""
    value = payload.value
    if isinstance(value, list):
        raise Problem(
            payload.place,
            found="a session of prompts, for a form or a query",
            wanted="a session of objects, one a turn: what fills the fields",
            remedy='write [{"q": "first"}, {"q": "second"}]',
        )
    is_row = isinstance(value, Row)
    if isinstance(value, str):
        value = {"prompt": value}
    elif not is_row:
        value = _as_row(value, payload.place)
    fields = asked.query if asked.form is None else asked.form
    assert fields is not None
    number = _in_none_of(*fields.values(), *value.values())
    if not is_row:
        value = {name: text.replace("{n}", number) for name, text in value.items()}
    text = urlencode(
        [(name, fill(template, value, place=payload.place, number=number)) for name, template in fields.items()]
    )
    return text.replace(quote(number), "{n}")


def _as_row(value: Mapping[str, Any], place: str) -> Row:
    found = Row()
    for name, one in value.items():
        if isinstance(one, bool) or not isinstance(one, str | int | float):
            raise Problem(
                f"{place}: /{name}",
                found=strict.shown(one),
                wanted="text or a number, which a field of a form or a query can hold",
                remedy="write it as text",
            )
        found[name] = one if isinstance(one, str) else msgspec.json.encode(one).decode()
    return found


def _names_a_column(asked: Asked, payloads: Sequence[Payload]) -> None:
    """Refuse a set of rows of which nothing is asked. Raises Problem."""
    first = payloads[0]
    fields = asked.form if asked.form is not None else asked.query
    if fields is None and not isinstance(first.value, Row):
        return
    known = list(first.value) if isinstance(first.value, dict) else []
    if isinstance(first.value, list):
        known = [name for one in first.value if isinstance(one, dict) for name in one]
    elif isinstance(first.value, str):
        known = ["prompt"]
    templates = [asked.prompt] if fields is None else list(fields.values())
    if not any(names_in(template, known) for template in templates):
        at = known[0] if known else "column"
        where = "the prompt" if fields is None else "form" if asked.form is not None else "query"
        raise Problem(
            first.place,
            found=f"{where} names nothing of it" if fields is None else f"no field of {where} names anything of it",
            wanted=f"a template, such as {{{at}}}: else every row asks the same",
            remedy=f'--prompt "{{{at}}}"' if fields is None else f"write {where}: {{FIELD: '{{{at}}}'}}",
        )


def fixed_headers(asked: Asked) -> dict[str, str]:
    """What goes with every call beside the plan's own headers."""
    found = {"User-Agent": "drillmaster"} if asked.is_websocket else {"Accept": "*/*", "User-Agent": "drillmaster"}
    if asked.method != "GET" and not asked.is_websocket:
        found["Content-Type"] = "application/json" if asked.form is None else "application/x-www-form-urlencoded"
    if asked.dialect == "anthropic":
        found["anthropic-version"] = "2023-06-01"
    named = {name.lower() for name in asked.headers}
    return {name: value for name, value in found.items() if name.lower() not in named}


def payload_sha256(asked: Asked, sent: Frozen, *, path: str) -> str:
    """The digest of what is asked: method, path, names of headers and all bodies.

    Of sessions it holds how many turns each has, of a WebSocket how it is spoken to.
    """
    whole: dict[str, Any] = {
        "method": asked.method,
        "path": path,
        "headers": sorted(asked.headers),
        "bodies": list(sent.bodies),
    }
    if sent.turns:
        whole["turns"] = list(sent.turns)
    if asked.is_websocket:
        whole["websocket"] = msgspec.to_builtins(asked.websocket or Messages())
    return strict.digest(whole)
