"""Payload sets: what a file says is asked, line by line, each with its place. Pure: bytes in, payloads or a Problem out.

1. JSONL: a line is a prompt (a string), a whole body (an object), or a session (an array). A session is prompts and recorded
   answers in turn, beginning and ending with a prompt; or whole bodies, one a turn.
2. The answers of a session are the file's own. Those of the day would make every later turn another payload in every run, longer
   where the endpoint talks more: two runs could not be compared, and no digest could say what was asked.
3. CSV (RFC 4180, UTF-8, commas): the first line names the columns, each other is a row that fills templates. A template is
   text in which `{column}` stands for the row's text; it says in one place what is around a column, and one column alone
   is the template `{column}`. `{{column}}` is those letters themselves, and so is any brace around what cannot be a name. A
   row's text is never a template: `{n}` in it is those letters.
4. A template that names no column of the set would ask the same thing at each row, and is refused; so is a name that is nearly one.
"""

import csv
import io
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from drillmaster import strict
from drillmaster.errors import Problem

__all__ = ["MAX_PAYLOADS", "Payload", "fill", "names_in", "read_csv", "read_payloads"]

MAX_PAYLOADS = 100_000
MAX_TURNS = 200
MAX_COLUMNS = 200
_MAX_CELL = 1 << 20
_JSONL = "write one JSON string, object or array a line"
_BRACES = re.compile(r"\{\{([^{}\r\n]{1,100})\}\}|\{([^{}\r\n]{1,100})\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*( [A-Za-z0-9_.\-]+){0,3}", re.ASCII)
"""What in braces is taken for a column that was meant."""


class Payload(NamedTuple):
    """One entry of a set."""

    place: str
    """File and line."""
    value: Any
    """A prompt, a whole body, or the list of a session's; of CSV a `Row`."""


class Row(dict[str, str]):
    """A row of a CSV file: column to text."""


def read_payloads(data: bytes, *, place: str) -> tuple[Payload, ...]:
    """A payload set by its name: CSV where that ends in `.csv`, else JSONL. Raises Problem."""
    return read_csv(data, place=place) if place.lower().endswith(".csv") else _read_jsonl(data, place=place)


def _read_jsonl(data: bytes, *, place: str) -> tuple[Payload, ...]:
    found: list[Payload] = []
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip():
            continue
        where = f"{place}:{number}"
        value = strict.load(line, place=where, fmt="json")
        if isinstance(value, list):
            _check_session(value, where)
        elif not (isinstance(value, dict) or (isinstance(value, str) and value.strip())):
            raise Problem(
                where,
                found=strict.shown(value),
                wanted='a prompt ("text"), a whole body ({...}) or a session ([...])',
                remedy=_JSONL,
            )
        found.append(Payload(where, value))
        _bounded(found, place)
    if not found:
        raise Problem(place, found="no payload", wanted="at least one line", remedy=_JSONL)
    return tuple(found)


def _bounded(found: Sequence[Payload], place: str) -> None:
    if len(found) > MAX_PAYLOADS:
        raise Problem(
            place, found=f"over {MAX_PAYLOADS} payloads", wanted=f"at most {MAX_PAYLOADS}", remedy="take a part of it"
        )


def _kind(one: object) -> type | None:
    return next((kind for kind in (dict, str) if isinstance(one, kind)), None)


def _check_session(value: list[Any], where: str) -> None:
    """Raises Problem for an array that is no session."""
    remedy = 'write ["first prompt", "recorded answer", "second prompt"], or an array of whole bodies'
    if not value:
        raise Problem(where, found="an empty session", wanted="at least one turn", remedy=remedy)
    kinds = {_kind(one) for one in value}
    if kinds not in ({str}, {dict}):
        at = next(at for at, one in enumerate(value) if _kind(one) is None or _kind(one) is not _kind(value[0]))
        raise Problem(
            f"{where}: /{at}",
            found=strict.shown(value[at]),
            wanted="prompts and recorded answers alone, or whole bodies alone",
            remedy=remedy,
        )
    if kinds == {dict} and all("role" in one and "content" in one for one in value):
        raise Problem(
            where,
            found="messages, each with role and content",
            wanted="prompts and recorded answers in turn, or whole bodies",
            remedy=remedy,
        )
    for at, one in enumerate(value):
        if isinstance(one, str) and not one.strip():
            raise Problem(f"{where}: /{at}", found="an empty text", wanted="what was said", remedy=remedy)
    if kinds == {str} and len(value) % 2 == 0:
        raise Problem(
            where,
            found=f"{len(value)} texts, so that the last is an answer",
            wanted="a prompt at the end: what is asked last",
            remedy="leave the last answer out: it is the one that is measured",
        )
    turns = (len(value) + 1) // 2 if kinds == {str} else len(value)
    if turns > MAX_TURNS:
        raise Problem(
            where, found=f"{turns} turns", wanted=f"at most {MAX_TURNS}", remedy="make several sessions of it"
        )


def read_csv(data: bytes, *, place: str) -> tuple[Payload, ...]:
    """Rows of a CSV file, each with the line that it begins on. Raises Problem."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Problem(
            f"{place}:{line}",
            found=f"the byte 0x{data[error.start]:02x}, which is no UTF-8",
            wanted="UTF-8",
            remedy="save it as UTF-8",
        ) from None
    if text.startswith("\ufeff"):
        raise Problem(
            f"{place}:1", found="a byte order mark", wanted="UTF-8 without one", remedy="save it as UTF-8 without BOM"
        )
    found: list[Payload] = []
    columns: list[str] | None = None
    for line, cells in _records(text, place):
        where = f"{place}:{line}"
        if columns is None:
            columns = cells
            _check_columns(columns, where)
        elif len(cells) != len(columns):
            raise Problem(
                where,
                found=f"{len(cells)} fields",
                wanted=f"{len(columns)}, as the first line names: {', '.join(columns)[:200]}",
                remedy='put a text that holds commas into quotes: "one, two"',
            )
        else:
            found.append(Payload(where, Row(zip(columns, cells, strict=True))))
            _bounded(found, place)
    if columns is None or not found:
        raise Problem(
            place,
            found="nothing" if columns is None else "a line of names and no row",
            wanted="a line that names the columns, and rows",
            remedy="write the names first, then one payload a line",
        )
    return tuple(found)


def _records(text: str, place: str) -> Iterator[tuple[int, list[str]]]:
    """Records that are not blank, with the line that they begin on."""
    before = csv.field_size_limit(_MAX_CELL)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        begins = 1
        while True:
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                if "field limit" in str(error):
                    raise Problem(
                        f"{place}:{begins}",
                        found=f"a field of over {_MAX_CELL:,} letters",
                        wanted="at most so many, or a quote that ends it",
                        remedy="shorten it, or write the set as JSONL",
                    ) from None
                raise Problem(
                    f"{place}:{begins}",
                    found=str(error),
                    wanted='CSV: fields with commas, and a quote in a quoted field twice ("")',
                    remedy="write it with a CSV writer",
                ) from None
            if cells:
                yield begins, cells
            begins = reader.line_num + 1
    finally:
        csv.field_size_limit(before)


def _check_columns(columns: list[str], where: str) -> None:
    remedy = "name each column in the first line, once"
    if len(columns) > MAX_COLUMNS:
        raise Problem(where, found=f"{len(columns)} columns", wanted=f"at most {MAX_COLUMNS}", remedy="leave some out")
    for at, name in enumerate(columns):
        if not name.strip() or re.search(r"[{}\x00-\x1f]", name) or len(name) > 100:
            wrong, wanted = f"{name[:60]!r} as column {at + 1}", "a name without braces, at most 100 letters"
        elif name in columns[:at]:
            wrong, wanted = f"the column {name!r} twice", "each name once"
        elif name == "n":
            wrong, wanted = "a column n", "another name: {n} is the number of the call"
        else:
            continue
        raise Problem(where, found=wrong, wanted=wanted, remedy=remedy)


def names_in(template: str, known: Collection[str]) -> list[str]:
    """What of a template is one of the known names, or meant to be one."""
    found = (match[2] for match in _BRACES.finditer(template) if match[2] is not None)
    return [name for name in found if name in known or (name != "n" and _NAME.fullmatch(name))]


def fill(template: str, values: Mapping[str, str], *, place: str, number: str = "{n}") -> str:
    """A template with its names replaced. Raises Problem for a name that is none.

    `number`: what `{n}` becomes, the place of the call's number; where it is none of the letters around it, those of a row
    and of `{{n}}` are told apart from it.
    """

    def put(match: re.Match[str]) -> str:
        if match[1] is not None:
            return f"{{{match[1]}}}" if match[1] in values or _NAME.fullmatch(match[1]) else match[0]
        name = match[2]
        if name in values:
            return values[name]
        if name == "n":
            return number
        if not _NAME.fullmatch(name):
            return match[0]
        near = strict.near(name, list(values))
        raise Problem(
            place,
            found=f"{{{name}}}",
            wanted=f"one of {', '.join(f'{{{known}}}' for known in values)}"[:300],
            remedy=f"Did you mean {{{near}}}?"
            if near
            else f"name a column, or write {{{{{name}}}}} for the letters themselves",
        )

    return _BRACES.sub(put, template)
