"""Which cells there are: clients x faults of the catalogue x streamed or not. No I/O but the catalogues' own imports.

An entry without parameters is one cell. One with parameters is tried with `TRIED`, where it stands there, else with a
plain value for each parameter it must be given, by the unit in its name. What none of these serve is listed as not run.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from drillmaster import dialects, faults
from drillmaster.errors import Problem
from drillmaster.sdkcheck import Cell, Client, NotRun

__all__ = ["CLIENTS", "NODE_CLIENTS", "choose", "plan"]

CLIENTS: tuple[Client, ...] = (
    Client(name="openai", dist="openai", dialect="openai_chat", probe="probe_openai.py"),
    Client(name="openai-responses", dist="openai", dialect="openai_responses", probe="probe_openai_responses.py"),
    Client(name="anthropic", dist="anthropic", dialect="anthropic", probe="probe_anthropic.py"),
    Client(
        name="anthropic-helper", dist="anthropic", dialect="anthropic", probe="probe_anthropic_helper.py", modes=(True,)
    ),
    Client(name="google-genai", dist="google-genai", dialect="gemini", probe="probe_google_genai.py"),
    Client(name="mistralai", dist="mistralai", dialect="mistral", probe="probe_mistralai.py"),
    Client(name="groq", dist="groq", dialect="groq", probe="probe_groq.py"),
    Client(name="litellm", dist="litellm", dialect="openai_chat", probe="probe_litellm.py"),
    Client(name="litellm-anthropic", dist="litellm", dialect="anthropic", probe="probe_litellm_anthropic.py"),
    Client(name="langchain-openai", dist="langchain-openai", dialect="openai_chat", probe="probe_langchain_openai.py"),
    Client(name="httpx", dist="httpx", dialect="openai_chat", probe="probe_httpx.py"),
    Client(name="httpx2", dist="httpx2", dialect="openai_chat", probe="probe_httpx2.py"),
    Client(name="requests", dist="requests", dialect="openai_chat", probe="probe_requests.py"),
    Client(name="aiohttp", dist="aiohttp", dialect="openai_chat", probe="probe_aiohttp.py"),
)
NODE_CLIENTS: tuple[Client, ...] = (
    Client(name="node-openai", dist="openai", dialect="openai_chat", probe="probe_node_openai.mjs"),
    Client(name="node-anthropic", dist="@anthropic-ai/sdk", dialect="anthropic", probe="probe_node_anthropic.mjs"),
    Client(name="node-fetch", dist="node", dialect="openai_chat", probe="probe_node_fetch.mjs"),
)

TRIED: dict[str, tuple[dict[str, Any], ...]] = {
    "cut-body": ({"after_bytes": 60, "how": "rst"}, {"after_bytes": 60, "how": "fin"}),
    "status": (
        {"status": 400, "condition": "context"},
        {"status": 401},
        {"status": 408},
        {"status": 409},
        {"status": 500},
        {"status": 502, "html": True},
        {"status": 504},
    ),
    "rate-limit": ({"retry_after_s": 1}, {"retry_after_s": 60}, {"retry_after_s": 3600}),
}
"""Where more than one set of parameters shows something."""

CALLS: dict[str, int] = {"stale-keep-alive": 2, "requests-per-minute": 2, "daily-quota": 2}
"""What the first request of a client does not meet."""

PLAIN: dict[str, Any] = {
    "after_bytes": 60,
    "after_events": 3,
    "after_s": 0,
    "bytes": 7,
    "bytes_per_s": 300,  # an answer of the stand-in's then takes some seconds: longer than the clients' time limit
    "delay_ms": 3_000,
    "every_ms": 400,
    "factor": 3,
    "model": "standin-small",
    "nth": 2,
    "per_s": 8,
    "reason": "length",
    "requests": 1,
    "skew_s": 3_600,
    "status": 500,
    "tokens": 1,
}
"""By a parameter's name, which holds its unit."""

FOR_OTHERS = "mcp-"
"""Faults of the tool protocol, which no client of a model speaks."""


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
    """The cells of these clients, faults in the catalogue's order, and what has none. Raises Problem for no such fault."""
    tags = tuple(wanted) or faults.names()
    kinds = {tag: faults.load(tag) for tag in tags}
    cells: list[Cell] = []
    left_out: list[NotRun] = []
    for client in clients:
        for tag, kind in kinds.items():
            if tag.startswith(FOR_OTHERS):
                left_out.append(
                    NotRun(client=client.name, label=tag, why="a fault of the tool protocol, not of a model's")
                )
                continue
            for params, why in _sets(tag, kind, client):
                label = " ".join([tag, *(f"{name}={value}" for name, value in params.items() if _tells(tag, name))])
                if why is not None:
                    left_out.append(NotRun(client=client.name, label=label, why=why))
                    continue
                cells += (
                    Cell(
                        client=client.name,
                        fault=tag,
                        label=label,
                        params=params,
                        stream=stream,
                        calls=CALLS.get(tag, 1),
                    )
                    for stream in client.modes
                )
    return cells, left_out


def _tells(tag: str, name: str) -> bool:
    """Whether a parameter belongs into the label: it tells cells of one fault apart."""
    return name == "shape" or (tag in TRIED and len({repr(params.get(name)) for params in TRIED[tag]}) > 1)


def _sets(tag: str, kind: type[faults.Fault], client: Client) -> Iterator[tuple[dict[str, Any], str | None]]:
    """The parameter sets to try, each with None or with why it cannot be."""
    for params in TRIED.get(tag) or _plain(kind, client):
        try:
            faults.make(tag, params)
        except Problem as problem:
            yield params, f"no parameters to try it with: {problem.found}"
        else:
            yield params, None


def _plain(kind: type[faults.Fault], client: Client) -> Iterator[dict[str, Any]]:
    due = [field for field in msgspec.structs.fields(kind) if field.required]
    params = {field.name: PLAIN[field.name] for field in due if field.name in PLAIN}
    if any(field.name == "shape" for field in msgspec.structs.fields(kind)):
        shapes = dialects.load(client.dialect).shapes
        if shapes:
            yield from ({**params, "shape": shape.name} for shape in shapes)
            return
    yield params
