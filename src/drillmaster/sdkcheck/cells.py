"""Which cells there are: clients x faults of the catalogue x streamed or not. No I/O but the catalogues' own imports.

An entry without parameters is one cell. One with parameters is tried with `TRIED`, where it stands there, else with the
entry's own examples for what must be given. What none of these serve, and what no call of the check can meet, is listed
as not run.
"""

from collections.abc import Iterable, Iterator
from typing import Any, get_type_hints

import msgspec

from drillmaster import dialects, faults
from drillmaster.errors import Problem
from drillmaster.sdkcheck import Cell, Client, NotRun

__all__ = ["CLIENTS", "EVERYONE", "SLOW", "choose", "is_asked_for_status", "plan"]

_LABS, _OTHERS, _LAYERS = "OpenAI's and Anthropic's SDKs", "other providers' SDKs", "layers above SDKs"
_HTTP, _NODE = "HTTP clients", "clients of Node"
CLIENTS: tuple[Client, ...] = (
    Client(name="openai", dist="openai", dialect="openai_chat", family=_LABS),
    Client(name="openai-responses", dist="openai", dialect="openai_responses", family=_LABS),
    Client(name="anthropic", dist="anthropic", dialect="anthropic", family=_LABS),
    Client(name="anthropic-helper", dist="anthropic", dialect="anthropic", family=_LABS, modes=(True,)),
    Client(name="google-genai", dist="google-genai", dialect="gemini", family=_OTHERS),
    Client(name="mistralai", dist="mistralai", dialect="mistral", family=_OTHERS),
    Client(name="groq", dist="groq", dialect="groq", family=_OTHERS),
    Client(name="litellm", dist="litellm", dialect="openai_chat", family=_LAYERS),
    Client(name="litellm-anthropic", dist="litellm", dialect="anthropic", family=_LAYERS),
    Client(name="langchain-openai", dist="langchain-openai", dialect="openai_chat", family=_LAYERS),
    Client(name="httpx", dist="httpx", dialect="openai_chat", family=_HTTP),
    Client(name="httpx2", dist="httpx2", dialect="openai_chat", family=_HTTP),
    Client(name="requests", dist="requests", dialect="openai_chat", family=_HTTP),
    Client(name="aiohttp", dist="aiohttp", dialect="openai_chat", family=_HTTP),
    Client(name="node-openai", dist="openai", dialect="openai_chat", family=_NODE, runtime="node"),
    Client(name="node-anthropic", dist="@anthropic-ai/sdk", dialect="anthropic", family=_NODE, runtime="node"),
    Client(name="node-fetch", dist="node", dialect="openai_chat", family=_NODE, runtime="node"),
)
"""Those of one package stand together, and those of one family."""
EVERYONE = "every client"

TRIED: dict[str, dict[str, dict[str, Any]]] = {
    "body-drip": {"": {"bytes_per_s": 400}},
    "clean-end": {"": {}, "close": {"framing": "close"}},
    "cut-body": {how: {"after_bytes": 60, "how": how} for how in ("rst", "fin")},
    "first-byte-delay": {"": {"delay_ms": 3_000}},
    "header-drip": {"": {"bytes_per_s": 600}},
    "rate-limit": {f"{wait_s} s": {"retry_after_s": wait_s} for wait_s in (1, 60, 3600)},
    "slow-close": {"": {"delay_ms": 3_000}},
    "slow-tokens": {"": {"per_s": 12}},
    "status": {
        **{str(status): {"status": status} for status in (401, 408, 409, 422, 500, 504, 529)},
        "502 html": {"status": 502, "html": True},
        "400 x-should-retry: true": {"status": 400, "should_retry": True},
        "429 x-should-retry: false": {"status": 429, "should_retry": False},
    },
    "throttle": {"": {"bytes_per_s": 300}},
    "tokens-per-minute": {"": {"tokens": 1}},
}
"""Where the examples show less, by what tells the cells of one fault apart. Times are long against the clients' limit, and
short against the watch."""

UNMET: dict[str, str] = {
    "tools": "the calls of this check offer no tools",
    "mcp": "a fault of the tool protocol, not of a model's",
}
"""What a fault needs and no call has."""
SLOW = frozenset(("unanswered", "silent", "stalled"))
"""How a fault is seen that nothing but a time limit of the client's ends."""


def is_asked_for_status(client: Client) -> bool:
    """Whether the client raises nothing for a status of its own accord: the check looks at it, as careful code does."""
    return client.family == _HTTP or client.dist == "node"


def choose(installed: Iterable[Client], wanted: Iterable[str]) -> tuple[Client, ...]:
    """Those of the installed clients that are wanted, by name or package; all where nothing is. Raises Problem."""
    here = tuple(installed)
    names = tuple(wanted)
    for name in names:
        if not any(name in (client.name, client.dist) for client in here):
            known = ", ".join(client.name for client in here) or "none"
            raise Problem(
                "--client", found=repr(name[:60]), wanted=f"one that is installed: {known}", remedy="name one"
            )
    return tuple(client for client in here if not names or client.name in names or client.dist in names)


def plan(clients: Iterable[Client], wanted: Iterable[str] = ()) -> tuple[list[Cell], list[NotRun]]:
    """The cells of these clients, and what has none. Raises Problem for no such fault.

    What takes long comes first, so that it does not stand alone at the end.
    """
    asked = tuple(clients)
    slow: list[Cell] = []
    quick: list[Cell] = []
    left_out: list[NotRun] = []
    for tag in tuple(wanted) or faults.names():
        kind = faults.load(tag)
        unmet = next((UNMET[need] for need in kind.needs if need in UNMET), None)
        if unmet is not None:
            left_out.append(NotRun(client=EVERYONE, label=tag, why=unmet))
            continue
        cells = slow if kind.group == "quota" or SLOW & set(kind.seen) else quick
        for client in asked:
            modes = [stream for stream in client.modes if ("whole" if stream else "stream") not in kind.needs]
            for suffix, params in _sets(tag, kind, client):
                label = f"{tag} {suffix}".rstrip()
                try:
                    calls = faults.make(tag, params).first_met() or 1
                except Problem as problem:
                    why = f"no parameters to try it with: {problem.found}"
                    left_out.append(NotRun(client=client.name, label=label, why=why))
                    continue
                cells += (
                    Cell(client=client.name, fault=tag, label=label, params=params, stream=stream, calls=calls)
                    for stream in modes
                )
    return slow + quick, left_out


def _sets(tag: str, kind: type[faults.Fault], client: Client) -> Iterator[tuple[str, dict[str, Any]]]:
    """The parameter sets to try, by what tells them apart."""
    shapes = dialects.load(client.dialect).shapes
    if tag in TRIED:
        yield from TRIED[tag].items()
    elif "shape" in kind.__struct_fields__ and shapes:
        yield from ((shape.name, {"shape": shape.name}) for shape in shapes)
    else:
        yield "", dict(_examples(kind))


def _examples(kind: type[faults.Fault]) -> Iterator[tuple[str, Any]]:
    hints = get_type_hints(kind, include_extras=True)
    for field in msgspec.structs.fields(kind):
        if field.required:
            for meta in getattr(hints[field.name], "__metadata__", ()):
                if isinstance(meta, msgspec.Meta) and meta.examples:
                    yield field.name, meta.examples[0]
