"""What is taken out of a transcript before it is written, with every length kept.

1. All pieces of a record are one text. A secret that is cut by their edges is seen whole.
2. A secret may be spread over the messages of a stream: each event of SSE, each line of NDJSON, each frame carries a piece of
   it as a JSON string. Strings that follow one another under one name are put together, screened, and put back.
3. Escapes of JSON (`\\u0026`, `\\/`) are read through: what they stand for is screened too.
4. A header is judged by its name first. The values of a URL's query and its user part go, its names stay.
"""

import re
from collections.abc import Iterable, Sequence

from drillmaster.screen import MARK, screen_headers, screen_text, screen_url

__all__ = ["redact", "redact_headers", "redact_text", "redact_url"]

_ESCAPED = re.compile(r"\\(?:u[0-9a-fA-F]{4}|/)")
_ESCAPES = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(/))")
_STRING = re.compile(
    r'"((?:[^"\\]|\\.){1,64})"\s{0,4}:\s{0,4}"((?:[^"\\]|\\.)*)"|"(?:\w{0,16}_)?index"\s{0,4}:\s{0,4}(\d{1,4})'
)
_PLAIN_DATA = re.compile(r"^data:[ ]?(?![ ]?[{\[])([^\r\n]*)", re.MULTILINE)
_DEEPEST = 3


def redact(pieces: Sequence[bytes]) -> list[bytes]:
    """Screen what came in pieces; each keeps its length."""
    whole = b"".join(pieces).decode("latin-1")
    clean = _screened(whole)
    if clean is whole:
        return list(pieces)
    data, at, kept = clean.encode("latin-1"), 0, []
    for piece in pieces:
        kept.append(data[at : at + len(piece)])
        at += len(piece)
    return kept


def redact_text(text: str) -> str:
    """Screen one text; the number of its characters stays."""
    return _screened(text)


def redact_url(url: str) -> str:
    """Screen a URL as `screen_url` does, each secret as many `*` as it had characters."""
    return url if screen_url(url) == url else _masked_url(url)


def redact_headers(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Screen header fields as `screen_headers` does; each value keeps its length."""
    kept = []
    for name, value in pairs:
        ((_, screened),) = screen_headers([(name, value)])
        if screened != value:
            value = "*" * len(value) if screened == MARK else redact_text(value)
            if MARK in screened and "*" not in value:  # a challenge, of which only known words stay
                value = "*" * len(value)
        kept.append((name, value))
    return kept


def _masked_url(url: str) -> str:
    front, question, query = url.partition("?")
    scheme, slashes, rest = front.partition("//")
    authority, slash, path = rest.partition("/")
    user, at, host = authority.rpartition("@")
    front = scheme + slashes + "*" * len(user) + at + host + slash + path if slashes else front
    query, mark, fragment = query.partition("#")
    parts = re.split(r"([&;])", query)
    for number, part in enumerate(parts):
        name, equals, value = part.partition("=")
        if equals:
            parts[number] = redact_text(name) + "=" + "*" * len(value)
        elif part not in ("&", ";"):
            parts[number] = "*" * len(part)
    return _screened(front) + question + "".join(parts) + mark + "*" * len(fragment)


def _screened(text: str) -> str:
    clean = _through_escapes(screen_text(text, keep_length=True), _DEEPEST)
    return _across(clean)


def _through_escapes(text: str, deepest: int) -> str:
    """Screen what the escapes of JSON stand for, and cover the escapes of what was found."""
    if not deepest or _ESCAPED.search(text) is None:
        return text
    parts: list[str] = []
    spans: list[tuple[int, int, int]] = []  # each escape: where in what is read, where in the text, and its length
    at = size = 0
    for match in _ESCAPES.finditer(text):
        parts.append(text[at : match.start()])
        size += match.start() - at
        stood_for = chr(int(match[1], 16)) if match[1] else "/"
        parts.append(stood_for)
        spans.append((size, match.start(), len(match[0])))
        size += 1
        at = match.end()
    parts.append(text[at:])
    read = "".join(parts)
    clean = _through_escapes(screen_text(read, keep_length=True), deepest - 1)
    if clean == read:
        return text
    out: list[str] = []
    at = 0  # in what was read
    for where, begin, length in spans:
        out.append(clean[at:where])
        out.append(text[begin : begin + length] if clean[where] == read[where] else "*" * length)
        at = where + 1
    out.append(clean[at:])
    return "".join(out)


def _across(text: str) -> str:
    """Screen strings that follow one another under one name, and data of events that is no JSON."""
    by_name: dict[str, list[tuple[int, int]]] = {}
    index = "0"
    more_than_one = False
    for match in _STRING.finditer(text):
        if match[3]:
            index = match[3]
            more_than_one = more_than_one or index != "0"
        else:
            by_name.setdefault(match[1], []).append(match.span(2))
            if more_than_one:
                by_name.setdefault(f"{match[1]} {index}", []).append(match.span(2))
    if "data:" in text:
        by_name["data:"] = [match.span(1) for match in _PLAIN_DATA.finditer(text)]
    out: list[str] | None = None
    for spans in by_name.values():
        if len(spans) < 2:
            continue
        joined = "".join(text[start:end] for start, end in spans)
        clean = _through_escapes(screen_text(joined, keep_length=True), _DEEPEST)
        if clean == joined:
            continue
        out = out or list(text)
        at = 0
        for start, end in spans:
            for here in range(start, end):
                if clean[at] != joined[at]:
                    out[here] = "*"
                at += 1
    return text if out is None else "".join(out)
