"""The list of faults and the page of one, as text for a terminal and as JSON. Read by `drillmaster fault list` and `show`."""

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from drillmaster import faults
from drillmaster.dialects import Dialect
from drillmaster.dialects import load as load_dialect
from drillmaster.dialects import names as dialect_names
from drillmaster.errors import one_line
from drillmaster.faults import NEEDS
from drillmaster.trying.asks import ask_for, usual
from drillmaster.trying.parameters import Parameter, filled, parameters, schema
from drillmaster.trying.playing import said
from drillmaster.trying.shelf import Cell, Entry, Index, read

__all__ = ["Explained", "Words", "explain", "explained", "explained_json", "listed", "listed_json"]

_BODY_CHARS = 240
# What the agents of `drillmaster standin agent --list-bugs` do wrong shows itself by what a client is left with.
MISTAKES: dict[str, tuple[str, ...]] = {
    "refused": ("status-only", "wrong-except", "eager-retries"),
    "unanswered": ("status-only", "no-client-timeout"),
    "reset": ("status-only", "wrong-except", "eager-retries"),
    "closed": ("status-only", "wrong-except"),
    "silent": ("no-client-timeout", "status-only"),
    "stalled": ("no-client-timeout", "status-only"),
    "broken": ("status-only", "wrong-except"),
    "status": ("wrong-except", "eager-retries"),
}
_BOLD, _DIM, _OFF = "\x1b[1m", "\x1b[2m", "\x1b[0m"


class Words(msgspec.Struct, frozen=True, kw_only=True):
    """What one API says in the fault's place."""

    dialect: str
    status: int
    fields: tuple[tuple[str, str], ...]
    body: str
    source: str
    """Where that wording is documented or was seen; empty: it is the fault's own."""


class Explained(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known of one fault."""

    tag: str
    group: str
    scope: str
    proof: str
    needs: tuple[str, ...]
    seen: tuple[str, ...]
    page: str
    """The entry's docstring."""
    parameters: tuple[Parameter, ...]
    params_schema: dict[str, Any]
    example: dict[str, Any]
    """Parameters that work."""
    words: tuple[Words, ...]
    mistakes: tuple[str, ...]
    """Those of the stand-in agent's that it brings out."""
    sdks: tuple[Cell, ...]
    sdks_measured: str
    captured: bool


def listed(found: Sequence[tuple[str, Entry]], index: Index, *, colour: bool, columns: int | None) -> Iterator[str]:
    """Write the list: groups, and one line a fault, cut to `columns`; None: whole."""
    width = max(len(tag) for tag, _ in found)
    group = None
    for tag, entry in found:
        if entry.group != group:
            if group is not None:
                yield ""
            group = entry.group
            yield f"{_BOLD}{group}{_OFF}" if colour else group
        marks = _marks(entry)
        scope = "" if entry.scope == "exchange" else f"[{entry.scope}]"
        line = f"{tag:{width}}  {scope} {one_line(entry.line)}" if scope else f"{tag:{width}}  {one_line(entry.line)}"
        if columns is not None and len(line) > columns - 7:
            line = f"{line[: max(width, columns - 8)]}…"
        yield f"  {f'{_DIM}{marks}{_OFF}' if colour else marks}  {line}"
    yield ""
    shown = "" if len(found) == len(index.faults) else f" of {len(index.faults)}"
    measured = f", measured {index.sdks_measured}" if index.sdks_measured else ""
    yield f"{len(found)}{shown} faults. W: bytes captured and compared; P: page; S: in the table of SDKs{measured}."
    yield "More: drillmaster fault show TAG; once, by hand: drillmaster fault try TAG"


def _marks(entry: Entry) -> str:
    return "".join(
        letter if has else "-" for letter, has in (("W", entry.captured), ("P", entry.page), ("S", entry.sdks))
    )


def listed_json(found: Sequence[tuple[str, Entry]], index: Index) -> str:
    """The same for programs."""
    rows = [
        {
            "tag": tag,
            "group": entry.group,
            "line": entry.line,
            "scope": entry.scope,
            "proof": entry.proof,
            "needs": entry.needs,
            "seen": entry.seen,
            "captured": entry.captured,
            "page": entry.page,
            "sdks": sorted({cell.client for cell in entry.sdks}),
        }
        for tag, entry in found
    ]
    whole = {"kind": "fault-list", "of": len(index.faults), "sdks_measured": index.sdks_measured, "faults": rows}
    return _pretty(whole)


def explain(tag: str, kind: type[faults.Fault], dialects: Sequence[str] | None, params: Mapping[str, Any]) -> Explained:
    """Gather what is known, with these parameters. `dialects` None: all of them. Raises Problem for one that there is not."""
    example, _ = filled(tag, kind, params)
    fault = faults.make(tag, example)
    _, stream = usual(fault)
    words = []
    for name in dialects or ("mcp",) if "mcp" in kind.needs else dialects or dialect_names():
        dialect = load_dialect(name)
        answer = None if kind.scope != "exchange" else said(fault, dialect, ask_for(fault, name, stream=stream))
        if answer is not None:
            body = answer.body.decode("utf-8", "backslashreplace")
            words.append(
                Words(dialect=name, status=answer.status, fields=answer.headers, body=body, source=answer.source)
            )
        if "shape" in kind.__struct_fields__:
            words += _in_stream(fault, dialect)
    entry = read().faults[tag]
    return Explained(
        tag=tag,
        group=kind.group,
        scope=kind.scope,
        proof=kind.proof,
        needs=kind.needs,
        seen=kind.seen,
        page=inspect.cleandoc(kind.__doc__ or ""),
        parameters=parameters(kind),
        params_schema=schema(kind),
        example=example,
        words=tuple(words),
        mistakes=tuple(dict.fromkeys(bug for seen in kind.seen for bug in MISTAKES.get(seen, ()))),
        sdks=entry.sdks,
        sdks_measured=read().sdks_measured,
        captured=entry.captured,
    )


def _in_stream(fault: faults.Fault, dialect: Dialect) -> Iterator[Words]:
    """How an API says in the middle of a stream that it failed, in each of its shapes or in the one that was chosen."""
    chosen = getattr(fault, "shape", None)
    condition = str(getattr(fault, "condition", "overloaded"))
    for shape in dialect.shapes:
        if chosen in (None, shape.name):
            frames = b"".join(dialect.error_frames(shape.name, condition, request_id=f"req_{'0' * 24}"))
            body = frames.decode("utf-8", "backslashreplace").strip()
            yield Words(dialect=f"{dialect.name}, {shape.name}", status=200, fields=(), body=body, source=shape.source)


def explained_json(one: Explained) -> str:
    """The same for programs; `params_schema` is a JSON Schema."""
    value: dict[str, Any] = {"kind": "fault", **msgspec.to_builtins(one)}
    value["sdks"] = [
        {"label": cell.label, "client": cell.client, "stream": cell.stream, "said": cell.said} for cell in one.sdks
    ]
    return _pretty(value)


def explained(one: Explained, *, colour: bool) -> Iterator[str]:
    """Write the page of one fault for a terminal."""

    def title(text: str) -> str:
        return f"{_BOLD}{text}{_OFF}" if colour else text

    yield title(one.tag)
    for line in one.page.splitlines():
        yield f"  {line}" if line else ""
    yield ""
    yield title("on the wire")
    yield f"  strikes:      {_strikes(one)}"
    yield f"  is proven by: {_PROOFS.get(one.proof, one.proof)}"
    yield f"  leaves a plain client with: {', '.join(one.seen) or 'it does not say'}"
    yield from _parameter_lines(one, title)
    yield ""
    yield title("in a plan")
    yield "  fault:"
    yield f"    mode: {_scalar(one.tag)}"
    if one.example:
        yield "    params: {" + ", ".join(f"{name}: {_scalar(value)}" for name, value in one.example.items()) + "}"
    yield from _word_lines(one, title)
    yield from _finds(one, title)
    yield ""
    yield f"once, by hand: drillmaster fault try {one.tag}"


_PROOFS = {
    "bytes": "bytes of a client's request, counted before it strikes",
    "connections": "connections that were accepted",
    "probe": "a probe of the proxy's own that fails as it should, and user requests in its window",
}


def _strikes(one: Explained) -> str:
    where = {"exchange": "single requests", "connection": "connections, before a request was read", "port": "the port"}
    only = f"; only {', '.join(NEEDS[need] for need in one.needs)}, all else passes" if one.needs else ""
    return f"{where.get(one.scope, one.scope)}{only}"


def _parameter_lines(one: Explained, title: Any) -> Iterator[str]:
    yield ""
    yield title("parameters") + ("" if one.parameters else ": none")
    for parameter in one.parameters:
        takes = ", ".join(part for part in (parameter.kind, parameter.unit, parameter.bounds) if part)
        default = f"default {parameter.default}" if parameter.default else "must be given"
        example = f", say {parameter.example}" if parameter.example and parameter.default in ("", "null") else ""
        yield f"  {parameter.name}: {parameter.description}"
        yield f"      {takes}; {default}{example}"


def _word_lines(one: Explained, title: Any) -> Iterator[str]:
    if not one.words:
        return
    yield ""
    yield title("what is said, by API")
    yield "  sources: D documentation, S an SDK's source, T a public tracker, 2 second-hand, M measured, ours"
    last = None
    for words in one.words:
        told = "; ".join(f"{name}: {value}" for name, value in words.fields if _telling(name))
        body = re.sub(r"req_[0-9a-f]{24}", "req_…", words.body)
        text = one_line(" ⏎ ".join(line for line in body.splitlines() if line))
        if len(text) > _BODY_CHARS:
            text = f"{text[:_BODY_CHARS]}…"
        yield f"  {words.dialect}: {words.status}{f' ({told})' if told else ''}"
        if text != last:
            yield f"      {text or '(no body)'}"
        if words.source:
            yield f"      source: {words.source}"
        last = text


def _telling(name: str) -> bool:
    return name.lower().startswith(("retry-after", "x-should-retry", "location")) or "ratelimit" in name.lower()


def _finds(one: Explained, title: Any) -> Iterator[str]:
    yield ""
    yield title("fallbacks that it finds out")
    breaks = re.search(r"^Breaks: (.*?)(?=^(?:Looks like|Cannot show):|\Z)", one.page, re.S | re.M)
    if breaks:
        yield "  " + " ".join(breaks[1].split())
    if one.mistakes:
        yield f"  of the stand-in agent's mistakes: {', '.join(one.mistakes)} (drillmaster standin agent --list-bugs)"
    yield ""
    if not one.sdks:
        yield title("what SDKs do with it") + ": not in the table that ships; drillmaster sdk-check measures yours"
        return
    yield (
        title("what SDKs do with it")
        + f" (measured {one.sdks_measured}; yours: drillmaster sdk-check --fault {one.tag})"
    )
    width = max(len(cell.client) for cell in one.sdks)
    first: dict[str, int] = {}
    for cell in one.sdks:
        first.setdefault(cell.client, len(first))
    for cell in sorted(one.sdks, key=lambda cell: (cell.stream, first[cell.client], cell.label)):
        label = "" if cell.label == one.tag else f"  [{cell.label.removeprefix(one.tag).strip()}]"
        yield f"  {cell.client:{width}}  {'stream' if cell.stream else 'whole '}  {one_line(cell.said)}{label}"


def _scalar(value: object) -> str:
    """A value as YAML of one line takes it."""
    if isinstance(value, str) and re.fullmatch(r"[a-z][a-z0-9_./-]*", value) and value not in _WORDS_OF_YAML:
        return value
    return msgspec.json.encode(value).decode()


_WORDS_OF_YAML = {"null", "true", "false", "yes", "no", "on", "off"}


def _pretty(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value)).decode()
