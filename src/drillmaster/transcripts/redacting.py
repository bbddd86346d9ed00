"""What is taken out of a transcript before it is written, with every length kept.

1. All pieces of a record are one text. A secret that is cut by their edges is seen whole.
2. A secret may be spread over the messages of a stream: each event of SSE, each line of NDJSON, each frame carries a piece of
   it as a JSON string. Strings that follow one another under one name are put together, screened, and put back.
3. Escapes of JSON (`\\u0026`, `\\/`) are read through: what they stand for is screened too.
4. A header is judged by its name first. The values of a URL's query and its user part go, its names stay.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from drillmaster.screen import screen_headers, screen_text, screen_url

__all__ = ["redact", "redact_headers", "redact_text", "redact_url"]

_ESCAPED = re.compile(r"\\(?:u[0-9a-fA-F]{4}|/)")
_ESCAPES = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(/))")
_STRING = re.compile(
    r'"([^"\\]{1,64})"\s{0,4}:\s{0,4}"([^"\\]*(?:\\.[^"\\]*)*)"|index"\s{0,4}:\s{0,4}(\d{1,4})', re.DOTALL
)
_STREAM = re.compile(r"^(?:data:|\{)", re.MULTILINE)
_PLAIN_DATA = re.compile(r"^data:[ ]?(?![ ]?[{\[])([^\r\n]*)", re.MULTILINE)
_DEEPEST = 3


def redact(pieces: Sequence[bytes]) -> list[bytes]:
    """Screen what came in pieces; each keeps its length."""
    whole = b"".join(pieces).decode("latin-1")
    # Each way of reading sees the text as it came: what one of them covers could be the beginning that another one needs.
    clean = _covered(whole, _read(whole), _across(whole) if len(pieces) > 1 or _is_stream(whole) else whole)
    if clean is whole:
        return list(pieces)
    data, at, kept = clean.encode("latin-1"), 0, []
    for piece in pieces:
        kept.append(data[at : at + len(piece)])
        at += len(piece)
    return kept


def redact_text(text: str) -> str:
    """Screen one text; the number of its characters stays."""
    return _read(text)


def redact_url(url: str) -> str:
    """Screen a URL as `screen_url` does, each secret as many `*` as it had characters."""
    if "?" not in url and "@" not in url and "#" not in url:
        return _read(url)
    return url if screen_url(url) == url else _masked_url(url)


def redact_headers(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Screen header fields as `screen_headers` does; each value keeps its length."""
    return [(name, _value(name, value)) for name, value in pairs]


@lru_cache(256)
def _goes_by_name(name: str) -> bool:
    """Whether what stands under a name goes whatever it is."""
    return screen_headers([(name, "0")]) != [(name, "0")]


def _value(name: str, value: str) -> str:
    return "*" * len(value) if _goes_by_name(name[:200]) else _read(value)


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
    return _read(front) + question + "".join(parts) + mark + "*" * len(fragment)


def _is_stream(text: str) -> bool:
    """Whether more than one message is in it: events, or lines of JSON."""
    return _STREAM.search(text, 1) is not None or text.startswith("data:")


def _read(text: str) -> str:
    return _covered(text, screen_text(text, keep_length=True), _through_escapes(text, _DEEPEST))


def _covered(text: str, *seen: str) -> str:
    """Put together what several screenings of one text have covered; the same object where they found nothing."""
    found = [one for one in seen if one is not text and one != text]
    if not found:
        return text
    if len(found) == 1:
        return found[0]
    return "".join("*" if "*" in letters else letters[0] for letters in zip(*found, strict=True))


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
        parts.append(chr(int(match[1], 16)) if match[1] else "/")
        spans.append((size, match.start(), len(match[0])))
        size += 1
        at = match.end()
    parts.append(text[at:])
    read = "".join(parts)
    clean = _covered(read, screen_text(read, keep_length=True), _through_escapes(read, deepest - 1))
    if clean is read:
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
    """Screen strings that follow one another under one name, and data of events that is no JSON.

    Under one name and index as well, where several streams take turns in one; an index may also count the events.
    """
    by_name: dict[tuple[str, str], list[tuple[int, int]]] = {}
    turns: dict[tuple[str, str], list[tuple[int, int]]] = {}
    index = "0"
    for match in _STRING.finditer(text):
        if match[3]:
            index = match[3]
            continue
        span = match.span(2)
        try:
            by_name[match[1], ""].append(span)
        except KeyError:
            by_name[match[1], ""] = [span]
        turns.setdefault((match[1], index), []).append(span)
    if index != "0" or len(turns) > len(by_name):
        by_name.update(turns)
    if "data:" in text:
        by_name["data:", "bare"] = [match.span(1) for match in _PLAIN_DATA.finditer(text)]
    out: list[str] | None = None
    for (name, which), spans in by_name.items():
        if len(spans) < 2 or (which not in ("", "bare") and len(spans) == len(by_name[name, ""])):
            continue  # one piece is read by itself, and one stream once
        words = [text[start:end] for start, end in spans]
        if words.count(words[0]) == len(words):
            continue  # an id, or a model's name: the same in each event
        joined = "".join(words)
        clean = _read(joined)
        if clean is joined:
            continue
        out = out or list(text)
        at = 0
        for start, end in spans:
            for here in range(start, end):
                if clean[at] != joined[at]:
                    out[here] = "*"
                at += 1
    return text if out is None else "".join(out)
