"""Spans from files, for the webhook-path gate: OTLP as JSON, and what the Python SDK's ConsoleSpanExporter prints.

1. Which of the two a document is, its own fields say: `resourceSpans`, or `context` and `start_time`. A file holds one document or
   several behind one another, in one line each or in many. Anything else is refused, by its name where it has one.
2. Unknown fields are ignored, as the protocol asks; ids, times and names have to be there and to be what they say.
3. Of attributes only those are looked at that a gate asks for, and no value of another one is kept. Of a URL its path and host.
4. The same span twice is one, as after a retried export. Two that differ under one id are told.
"""

import base64
import binascii
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, NoReturn
from urllib.parse import SplitResult, urlsplit

import msgspec

from drillmaster import strict
from drillmaster.clock import parse_rfc3339
from drillmaster.errors import Problem, one_line
from drillmaster.gates import Gate
from drillmaster.gates._webhook_path_spans import MODEL_PREFIXES, Kind, Span, Spans
from drillmaster.gates.webhook_path import WebhookPath
from drillmaster.intake import is_there, read_bytes
from drillmaster.intake.authority import Authority
from drillmaster.intake.json_documents import documents
from drillmaster.intake.judging import Asked, Gathered
from drillmaster.strict import shown
from drillmaster.verdict import Cite

__all__ = ["SpanFiles", "open_spans"]

CAP_BYTES = 64 << 20
_MOST_SPANS = 1_000_000
_KINDS: tuple[Kind, ...] = ("unspecified", "internal", "server", "client", "producer", "consumer")
_DIGITS = re.compile(r"[0-9]+")
_HEX = re.compile(r"[0-9a-fA-F]+")
_LATEST_NS = 7_226_582_400 * 10**9
_WRITES = frozenset({"insert", "upsert", "merge", "replace", "put", "putitem", "insertone", "add", "xadd", "set"})
_OTHERS: tuple[tuple[frozenset[str], str], ...] = (
    (frozenset({"batches"}), "a trace as Tempo answers it"),
    (frozenset({"data"}), "traces as Jaeger answers them"),
    (frozenset({"resourceLogs"}), "logs of OTLP"),
    (frozenset({"resourceMetrics"}), "metrics of OTLP"),
    (frozenset({"traceId", "localEndpoint"}), "spans of Zipkin"),
)
_HOW = "write OTLP as JSON (the collector's file exporter), or print spans with ConsoleSpanExporter"


class SpanFiles:
    """What `intake.judging` asks for: what gathers the evidence."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = tuple(paths)

    def gather(self, gate: Gate[Any], asked: Asked, authority: Authority | None) -> Gathered:
        """Read the evidence for a gate. Raises Problem."""
        assert isinstance(gate, WebhookPath)
        seen, digest = open_spans(self._paths, now_ns=asked.now_ns)
        accepts = [one for one in seen.spans if gate.is_accept(one)]
        names = [one_line(path.name) for path in self._paths]
        return Gathered(
            evidence=seen,
            subject=", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else ""),
            digest=digest,
            counts={"spans": len(seen.spans), "accepts": len(accepts), "files": len(names)},
            end_ns=max((one.end_ns or one.start_ns for one in accepts), default=None),
            stamps=() if gate.store_span else ("STORE NOT TRACED",),
        )


def open_spans(paths: Sequence[Path], *, now_ns: int) -> tuple[Spans, str]:
    """Read files of spans as one; with their digest. Raises Problem."""
    found: dict[tuple[str, str], Span] = {}
    twice: list[Cite] = []
    digests, places = [], set()
    for path in paths:
        place = path.resolve() if is_there(path) else path
        if place in places:
            raise Problem("gate webhook-path", found=f"{path} twice", wanted="each file once", remedy="name it once")
        places.add(place)
        data = read_bytes(path, CAP_BYTES)
        digests.append(strict.digest_bytes(data))
        if not data.strip():
            _refuse(str(path), "an empty file", "spans", f"replay a signed webhook, then {_HOW}")
        n = 0
        for document, line in documents(data, str(path), wanted="spans, as JSON", how=_HOW):
            for span in _spans(document, str(path), Cite(one_line(path.name), line)):
                n += 1
                known = found.setdefault((span.trace, span.id), span)
                if known is not span and _content(known) != _content(span):
                    twice.append(span.cite)
                if len(found) > _MOST_SPANS:
                    _refuse(str(path), f"more than {_MOST_SPANS:,} spans", "the spans of one replay", "cut the file")
        if not n:
            _refuse(str(path), "no span", "the spans of the accept path", f"replay a signed webhook, then {_HOW}")
    return Spans(spans=tuple(found.values()), now_ns=now_ns, twice=tuple(twice[:20])), strict.digest(digests)


def _content(span: Span) -> Span:
    return msgspec.structs.replace(span, cite=Cite("", 0))


def _spans(document: Any, place: str, cite: Cite) -> Iterator[Span]:
    where = f"{place}:{cite.line}"
    for one in document if isinstance(document, list) else [document]:  # the console's in a list, as people put them
        yield from _of_one(one, where, cite)


def _of_one(document: Any, where: str, cite: Cite) -> Iterator[Span]:
    if not isinstance(document, dict):
        _refuse(where, shown(document), "spans", _HOW)
    if "resourceSpans" in document or "resource_spans" in document:
        yield from _of_otlp(document, where, cite)
    elif "context" in document and "start_time" in document:
        yield _of_console(document, where, cite)
    else:
        other = next((said for names, said in _OTHERS if names <= document.keys()), "")
        _refuse(
            where, other or "an object that is neither", "OTLP's resourceSpans, or spans of ConsoleSpanExporter", _HOW
        )


# OTLP


def _of_otlp(document: dict[str, Any], where: str, cite: Cite) -> Iterator[Span]:
    for batch in _list(document, "resourceSpans", "resource_spans", where):
        process, clock = _told_by(_attributes(_object(batch, "resource").get("attributes"), where))
        scopes = "scopeSpans" if "scopeSpans" in batch or "scope_spans" not in batch else "scope_spans"
        for scope in _list(batch, scopes, "instrumentationLibrarySpans", where):
            for span in _list(scope, "spans", "spans", where):
                yield _otlp_span(span, process, clock, where, cite)


_DROPPED = ("droppedAttributesCount", "droppedEventsCount", "droppedLinksCount")


def _otlp_span(span: dict[str, Any], process: str, clock: str, where: str, cite: Cite) -> Span:
    span = _named_as_json(span)
    events, links = _list(span, "events", "events", where), _list(span, "links", "links", where)
    attributes = _attributes(span.get("attributes"), where)
    names = [str(one.get("name")) for one in events]
    names += [name for one in events for name in _attributes(one.get("attributes"), where)]
    dropped = sum([_whole(span[name], where) for name in _DROPPED if name in span])
    links = [_named_as_json(one) for one in links]
    if events or links:
        dropped += sum(_whole(_named_as_json(one).get(_DROPPED[0]), where) for one in (*events, *links))
    return _span(
        attributes,
        names,
        where,
        trace=_id(span.get("traceId"), 16, where, "traceId"),
        id=_id(span.get("spanId"), 8, where, "spanId"),
        parent=_id(span.get("parentSpanId") or "", 8, where, "parentSpanId", empty=True),
        name=_name(span.get("name"), where),
        kind=_kind(span.get("kind", 0), where),
        start_ns=_nanos(span.get("startTimeUnixNano"), where, "startTimeUnixNano"),
        end_ns=_nanos(span.get("endTimeUnixNano") or 0, where, "endTimeUnixNano", zero=True),
        process=process,
        clock=clock,
        links=tuple(
            (
                _id(one.get("traceId"), 16, where, "links/traceId"),
                _id(one.get("spanId"), 8, where, "links/spanId"),
            )
            for one in links
        ),
        dropped=dropped,
        failed=_object(span, "status").get("code") in (2, "STATUS_CODE_ERROR"),
        cite=cite,
    )


def _named_as_json(value: dict[str, Any]) -> dict[str, Any]:
    """Name fields as in JSON, where they are named as in the protocol's own files (`trace_id`)."""
    if not any("_" in name for name in value):
        return value
    return {re.sub(r"_([a-z])", lambda m: m[1].upper(), name): one for name, one in value.items()} | value


def _attributes(pairs: Any, where: str) -> dict[str, Any]:
    if pairs is None:
        return {}
    if isinstance(pairs, dict):
        return pairs
    found: dict[str, Any] = {}
    try:  # as nearly all are: one value under each key
        for pair in pairs:
            (found[pair["key"]],) = pair["value"].values()
        if all(type(key) is str for key in found):
            return found
    except (AttributeError, KeyError, TypeError, ValueError):
        pass
    found.clear()
    for pair in pairs if isinstance(pairs, list) else [pairs]:
        if not isinstance(pair, dict) or not isinstance(pair.get("key"), str):
            _refuse(where, f"an attribute that is {shown(pair)[:60]}", "key and value", _HOW)
        value = pair.get("value")
        found[pair["key"]] = next(iter(value.values()), None) if isinstance(value, dict) and value else value
    return found


# The console's


def _of_console(span: dict[str, Any], where: str, cite: Cite) -> Span:
    context, parent = span["context"], span.get("parent_id")
    if not isinstance(context, dict):
        _refuse(where, f"a context that is {shown(context)}", "trace_id and span_id", _HOW)
    events, links = _list(span, "events", "events", where), _list(span, "links", "links", where)
    names = [str(one.get("name")) for one in events]
    names += [name for one in events for name in _attributes(one.get("attributes"), where)]
    process, clock = _told_by(_attributes(_object(span, "resource").get("attributes"), where))
    kind = str(span.get("kind")).removeprefix("SpanKind.")
    linked = [_object(one, "context") for one in links]
    return _span(
        _attributes(span.get("attributes"), where),
        names,
        where,
        trace=_hex(context.get("trace_id"), 16, where, "trace_id"),
        id=_hex(context.get("span_id"), 8, where, "span_id"),
        parent="" if parent is None else _hex(parent, 8, where, "parent_id"),
        name=_name(span.get("name"), where),
        kind=_kind(kind, where),
        start_ns=_stamp(span.get("start_time"), where, "start_time"),
        end_ns=0 if span.get("end_time") is None else _stamp(span["end_time"], where, "end_time"),
        process=process,
        clock=clock,
        links=tuple(
            (
                _hex(one.get("trace_id"), 16, where, "links/trace_id"),
                _hex(one.get("span_id"), 8, where, "links/span_id"),
            )
            for one in linked
        ),
        dropped=sum(
            _whole(span.get(name), where) for name in ("dropped_attributes", "dropped_events", "dropped_links")
        ),
        failed=_object(span, "status").get("status_code") in ("ERROR", "StatusCode.ERROR"),
        cite=cite,
    )


def _hex(value: Any, size: int, where: str, field: str) -> str:
    return _id(value.removeprefix("0x") if isinstance(value, str) else value, size, where, field)


# What both have


_READ = (
    "http.request.method", "http.method", "url.path", "http.target", "url.full", "http.url", "http.route", "server.address",
    "net.peer.name", "http.host", "peer.service", "asgi.event.type", "rpc.service", "db.system.name", "db.system",
    "db.operation.name", "db.operation", "db.query.text", "db.statement",
)  # fmt: skip  # words
"""Attributes whose values are looked at, beside the status."""
_REMEMBERED = 512


class _Told(NamedTuple):
    """What the attributes of a span tell."""

    method: str
    path: str
    route: str
    hosts: tuple[str, ...]
    answered: bool
    stores: bool
    bedrock: bool


def _span(attributes: dict[str, Any], inner: list[str], where: str, *, failed: bool, **fields: Any) -> Span:
    signals = [one[:80] for one in (*attributes, *inner) if one.lower().startswith(MODEL_PREFIXES)]
    values = [value if isinstance(value := attributes.get(name), str) else "" for name in _READ]
    told = _told(fields["name"], *values)
    if not signals and told.bedrock:
        signals = ["rpc.service"]
    return Span(
        signals=tuple(dict.fromkeys(signals))[:5],
        method=told.method,
        path=told.path,
        route=told.route,
        host=told.hosts[0] if told.hosts else "",
        other_hosts=told.hosts[1:],
        status=_status(attributes, where),
        answered=told.answered,
        stores=told.stores and not failed,
        **fields,
    )


@lru_cache(maxsize=_REMEMBERED)
def _told(name: str, *values: str) -> _Told:
    """Read the values of `_READ`, in its order; spans of one kind mostly have the same."""
    attributes = {key: value for key, value in zip(_READ, values, strict=True) if value}
    return _Told(
        method=_text(attributes, "http.request.method", "http.method").upper()[:20],
        path=_path(attributes),
        route=_text(attributes, "http.route")[:200],
        hosts=_hosts(attributes),
        answered=_text(attributes, "asgi.event.type") in ("http.response.start", "http.response.body"),
        stores=_stores(attributes, name),
        bedrock="bedrock" in _text(attributes, "rpc.service").lower(),
    )


def _text(attributes: dict[str, Any], *names: str) -> str:
    for name in names:
        value = attributes.get(name)
        if value and isinstance(value, str):
            return value
    return ""


def _path(attributes: dict[str, Any]) -> str:
    """Give the path, without a query."""
    said = _text(attributes, "url.path", "http.target") or _url(_text(attributes, "url.full", "http.url")).path
    return said.partition("?")[0].partition("#")[0][:200]


def _hosts(attributes: dict[str, Any]) -> tuple[str, ...]:
    """Give whom a span names as called: by its own words first, and by its URL, where a proxy stands between."""
    found = []
    for name in ("server.address", "net.peer.name", "http.host", "peer.service"):
        value = attributes.get(name)
        if value and isinstance(value, str):
            found.append(_named_host(value))
    url = _text(attributes, "url.full", "http.url")
    if url:
        found.append(_url(url).hostname or "")
    return tuple(dict.fromkeys(one[:200] for one in found if one))


def _named_host(value: str) -> str:
    """Give a host without its port; an address of IPv6 has colons of its own."""
    if value.startswith("["):
        return value[1:].partition("]")[0]
    return value if value.count(":") > 1 else value.partition(":")[0]


def _url(text: str) -> SplitResult:
    try:
        found = urlsplit(text)
        _ = found.hostname
    except ValueError:
        return urlsplit("")
    return found


def _status(attributes: dict[str, Any], where: str) -> int | None:
    said = attributes.get("http.response.status_code", attributes.get("http.status_code"))
    if said is None:
        return None
    number = int(said) if isinstance(said, str) and len(said) == 3 and _DIGITS.fullmatch(said) else said  # digits
    if type(number) is not int or not 100 <= number <= 599:
        _refuse(where, f"the status {shown(said)}", "100 to 599", _HOW)
    return number


def _stores(attributes: dict[str, Any], name: str) -> bool:
    if not _text(attributes, "db.system.name", "db.system"):
        return False
    said = _text(attributes, "db.operation.name", "db.operation") or _text(attributes, "db.query.text", "db.statement")
    text = said or name
    first = re.match(r"\s*([A-Za-z_]+)", text)
    if first is not None and first[1].lower() == "with":  # what is done stands behind the tables that it names
        return re.search(r"\)\s*(?:insert|merge)\b", text, re.IGNORECASE) is not None
    return first is not None and first[1].lower() in _WRITES


def _told_by(resource: dict[str, Any]) -> tuple[str, str]:
    """Say which process a resource is, and whose clock it has; "" where it does not say."""
    service = _text(resource, "service.name")
    instance = _text(resource, "service.instance.id") or str(resource.get("process.pid", ""))
    process = f"{service}/{instance}" if service or instance else ""
    host = _text(resource, "host.id", "host.name", "k8s.node.name")
    return process[:300], host[:200] or process[:300]


def _object(value: dict[str, Any], name: str) -> dict[str, Any]:
    found = value.get(name)
    return found if isinstance(found, dict) else {}


def _list(value: dict[str, Any], name: str, other: str, where: str) -> list[dict[str, Any]]:
    found = value.get(name, value.get(other))
    if not found and (found is None or type(found) is list):
        return []
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        _refuse(where, f"{name} that is {shown(found)[:60]}", "a list of objects", _HOW)
    return found


def _id(value: Any, size: int, where: str, field: str, *, empty: bool = False) -> str:
    """Read an id in hex, or as JSON of the protocol's own files has it, in base64."""
    if empty and value == "":
        return ""
    text = value if isinstance(value, str) else ""
    found = text if len(text) == 2 * size and _HEX.fullmatch(text) else ""
    if not found and len(text) == 4 * -(-size // 3):
        try:
            raw = base64.b64decode(text, validate=True)
            found = raw.hex() if len(raw) == size else ""
        except (binascii.Error, ValueError):
            found = ""
    if not found or not found.strip("0"):
        if empty and found:
            return ""  # all zeros: there is none
        _refuse(where, f"{field} {shown(value)}", f"{2 * size} hex digits, not all of them 0", _HOW)
    return found.lower()


def _name(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value:
        _refuse(where, f"a name that is {shown(value)}", "a span's name", _HOW)
    return value[:400]


def _kind(value: Any, where: str) -> Kind:
    if isinstance(value, str):
        word = value.removeprefix("SPAN_KIND_").lower()
        found = word if word in _KINDS else None
    else:
        found = _KINDS[value] if type(value) is int and 0 <= value < len(_KINDS) else None
    if found is None:
        _refuse(where, f"the kind {shown(value)}", f"0 to 5, or one of {', '.join(_KINDS)}", _HOW)
    return found


def _nanos(value: Any, where: str, field: str, *, zero: bool = False) -> int:
    number = int(value) if isinstance(value, str) and len(value) < 20 and value.isascii() and value.isdigit() else value
    if type(number) is not int or not 0 <= number < _LATEST_NS or (not number and not zero):
        _refuse(where, f"{field} {shown(value)}", "nanoseconds since 1970", _HOW)
    return number


def _stamp(value: Any, where: str, field: str) -> int:
    found = _instant(value) if isinstance(value, str) else None
    if found is None:
        _refuse(where, f"{field} {shown(value)}", "RFC 3339 with a zone", _HOW)
    return found


@lru_cache(maxsize=4096)
def _seconds(text: str) -> int | None:
    return parse_rfc3339(text)


def _instant(text: str) -> int | None:
    """Read a time; that of a whole second, as many spans share, is remembered."""
    if (
        len(text) == len("2026-11-30T15:00:00.000000Z")
        and text[19] == "."
        and text[-1] == "Z"
        and text[20:26].isdigit()
    ):
        whole = _seconds(f"{text[:19]}Z")
        return None if whole is None or not text.isascii() else whole + int(text[20:26]) * 1_000
    return parse_rfc3339(text)


def _whole(value: Any, where: str) -> int:
    if value is None:
        return 0
    number = int(value) if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}", value) else value
    if type(number) is not int or number < 0:
        _refuse(where, f"a count of what was dropped that is {shown(value)}", "a whole number", _HOW)
    return number


def _refuse(place: str, found: str, wanted: str, remedy: str) -> NoReturn:
    raise Problem(place, found=found, wanted=wanted, remedy=remedy)
