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
from pathlib import Path
from typing import Any, NoReturn
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
from drillmaster.intake.judging import Asked, Gathered
from drillmaster.strict import shown
from drillmaster.verdict import Cite

__all__ = ["SpanFiles", "documents", "open_spans"]

CAP_BYTES = 64 << 20
_MOST_SPANS = 1_000_000
_KINDS: tuple[Kind, ...] = ("unspecified", "internal", "server", "client", "producer", "consumer")
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]]', re.DOTALL)
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
        n = 0
        for document, line in documents(data, str(path)):
            for span in _spans(document, str(path), Cite(one_line(path.name), line)):
                n += 1
                known = found.setdefault((span.trace, span.id), span)
                if _content(known) != _content(span):
                    twice.append(span.cite)
                if len(found) > _MOST_SPANS:
                    _refuse(str(path), f"more than {_MOST_SPANS:,} spans", "the spans of one replay", "cut the file")
        if not n:
            _refuse(str(path), "no span", "the spans of the accept path", f"replay a signed webhook, then {_HOW}")
    return Spans(spans=tuple(found.values()), now_ns=now_ns, twice=tuple(twice[:20])), strict.digest(digests)


def documents(data: bytes, place: str) -> Iterator[tuple[Any, int]]:
    """Give the JSON documents of a file that stand behind one another, each with the line it begins in. Raises Problem."""
    if not data.strip():
        _refuse(place, "an empty file", "spans", f"replay a signed webhook, then {_HOW}")
    at, line = 0, 1
    while at < len(data):
        end = _end_of(data, at)
        piece = data[at:end]
        if piece.strip():
            lead = len(piece) - len(piece.lstrip())
            begins = line + piece[:lead].count(b"\n")
            try:
                value = strict.load(piece, place=place, fmt="json", cap_bytes=CAP_BYTES)
            except Problem as problem:
                raise Problem(
                    f"{place}:{begins}",
                    found=problem.found,
                    wanted="spans, as JSON",
                    remedy=f"{problem.remedy}; or {_HOW}",
                ) from None
            yield value, begins
        line += piece.count(b"\n")
        at = end


def _end_of(data: bytes, at: int) -> int:
    """Find where the document ends that begins at a place: behind its last bracket, else where the data does."""
    depth = 0
    for token in _TOKEN.finditer(data, at):
        match token[0]:
            case b"{" | b"[":
                depth += 1
            case b"}" | b"]":
                depth -= 1
                if depth <= 0:
                    return token.end()
    return len(data)


def _content(span: Span) -> Span:
    return msgspec.structs.replace(span, cite=Cite("", 0))


def _spans(document: Any, place: str, cite: Cite) -> Iterator[Span]:
    where = f"{place}:{cite.line}"
    if isinstance(document, list):  # the console's documents in a list, as people put them
        for one in document:
            yield from _spans(one, place, cite)
        return
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


def _otlp_span(span: dict[str, Any], process: str, clock: str, where: str, cite: Cite) -> Span:
    events, links = _list(span, "events", "events", where), _list(span, "links", "links", where)
    attributes = _attributes(span.get("attributes"), where)
    inner = [_attributes(one.get("attributes"), where) for one in events]
    dropped = [_whole(_either(span, f"dropped{what}Count"), where) for what in ("Attributes", "Events", "Links")]
    dropped += [_whole(_either(one, "droppedAttributesCount"), where) for one in (*events, *links)]
    return _span(
        attributes,
        [*(str(one.get("name")) for one in events), *(name for one in inner for name in one)],
        where,
        trace=_id(_either(span, "traceId"), 16, where, "traceId"),
        id=_id(_either(span, "spanId"), 8, where, "spanId"),
        parent=_id(_either(span, "parentSpanId") or "", 8, where, "parentSpanId", empty=True),
        name=_name(span.get("name"), where),
        kind=_kind(span.get("kind", 0), where),
        start_ns=_nanos(_either(span, "startTimeUnixNano"), where, "startTimeUnixNano"),
        end_ns=_nanos(_either(span, "endTimeUnixNano") or 0, where, "endTimeUnixNano", zero=True),
        process=process,
        clock=clock,
        links=tuple(
            (
                _id(_either(one, "traceId"), 16, where, "links/traceId"),
                _id(_either(one, "spanId"), 8, where, "links/spanId"),
            )
            for one in links
        ),
        dropped=sum(dropped),
        cite=cite,
    )


def _either(value: dict[str, Any], name: str) -> Any:
    """Give a field by its name in JSON, or by the one that the protocol's own files have."""
    return value.get(name, value.get(re.sub(r"([A-Z])", lambda m: f"_{m[1].lower()}", name)))


def _attributes(pairs: Any, where: str) -> dict[str, Any]:
    if pairs is None:
        return {}
    if isinstance(pairs, dict):
        return pairs
    found = {}
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
        cite=cite,
    )


def _hex(value: Any, size: int, where: str, field: str) -> str:
    return _id(value.removeprefix("0x") if isinstance(value, str) else value, size, where, field)


# What both have


def _span(attributes: dict[str, Any], inner: list[str], where: str, **fields: Any) -> Span:
    names = (*attributes, *inner)
    return Span(
        signals=tuple(dict.fromkeys(one[:80] for one in names if one.lower().startswith(MODEL_PREFIXES)))[:5]
        or (("rpc.service",) if "bedrock" in _text(attributes, "rpc.service").lower() else ()),
        method=_text(attributes, "http.request.method", "http.method").upper()[:20],
        path=_path(attributes),
        route=_text(attributes, "http.route")[:200],
        host=_host(attributes),
        status=_status(attributes, where),
        answered=_text(attributes, "asgi.event.type") == "http.response.start",
        stores=_stores(attributes, fields["name"]),
        **fields,
    )


def _text(attributes: dict[str, Any], *names: str) -> str:
    return next((value for name in names if isinstance(value := attributes.get(name), str) and value), "")


def _path(attributes: dict[str, Any]) -> str:
    """Give the path, without a query."""
    said = _text(attributes, "url.path", "http.target") or _url(_text(attributes, "url.full", "http.url")).path
    return said.partition("?")[0].partition("#")[0][:200]


def _host(attributes: dict[str, Any]) -> str:
    url = _url(_text(attributes, "url.full", "http.url"))
    named = _text(attributes, "server.address", "net.peer.name", "http.host", "peer.service")
    return (named.partition(":")[0] or (url.hostname or ""))[:200]


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
    number = int(said) if isinstance(said, str) and re.fullmatch(r"[1-5][0-9]{2}", said) else said
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
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        _refuse(where, f"{name} that is {shown(found)[:60]}", "a list of objects", _HOW)
    return found


def _id(value: Any, size: int, where: str, field: str, *, empty: bool = False) -> str:
    """Read an id in hex, or as JSON of the protocol's own files has it, in base64."""
    if empty and value == "":
        return ""
    text = value if isinstance(value, str) else ""
    found = text.lower() if re.fullmatch(rf"[0-9a-fA-F]{{{2 * size}}}", text) else ""
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
    return found


def _name(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value:
        _refuse(where, f"a name that is {shown(value)}", "a span's name", _HOW)
    return value[:400]


def _kind(value: Any, where: str) -> Kind:
    if isinstance(value, str):
        word = value.removeprefix("SPAN_KIND_").lower()
        found = next((one for one in _KINDS if one == word), None)
    else:
        found = _KINDS[value] if type(value) is int and 0 <= value < len(_KINDS) else None
    if found is None:
        _refuse(where, f"the kind {shown(value)}", f"0 to 5, or one of {', '.join(_KINDS)}", _HOW)
    return found


def _nanos(value: Any, where: str, field: str, *, zero: bool = False) -> int:
    number = int(value) if isinstance(value, str) and re.fullmatch(r"[0-9]{1,19}", value) else value
    if type(number) is not int or not 0 <= number < _LATEST_NS or (not number and not zero):
        _refuse(where, f"{field} {shown(value)}", "nanoseconds since 1970", _HOW)
    return number


def _stamp(value: Any, where: str, field: str) -> int:
    found = parse_rfc3339(value) if isinstance(value, str) else None
    if found is None:
        _refuse(where, f"{field} {shown(value)}", "RFC 3339 with a zone", _HOW)
    return found


def _whole(value: Any, where: str) -> int:
    if value is None:
        return 0
    number = int(value) if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}", value) else value
    if type(number) is not int or number < 0:
        _refuse(where, f"a count of what was dropped that is {shown(value)}", "a whole number", _HOW)
    return number


def _refuse(place: str, found: str, wanted: str, remedy: str) -> NoReturn:
    raise Problem(place, found=found, wanted=wanted, remedy=remedy)
