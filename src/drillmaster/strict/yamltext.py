"""YAML 1.2 by the rules of `strict`: built from the parser's events, so that no constructor and no resolver decides."""

import re
from collections.abc import Iterator
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)
from ruamel.yaml.reader import ReaderError

from drillmaster.strict.malformed import (
    MAX_DEPTH,
    MAX_WHOLE,
    Kind,
    Malformed,
    Path,
    clip,
    escaped,
    name_fault,
    number_fault,
    number_texts,
    printable,
    quoted,
)

__all__ = ["strict_yaml"]

_BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_NULLS = ("", "~", "null", "Null", "NULL")
_WHOLE = re.compile(r"[-+]?[0-9]+")
_REAL = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_OTHER_BASE = re.compile(r"[-+]?0(?:o[0-7]+|x[0-9a-fA-F]+)")
_UNFINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_ZEROS_FIRST = re.compile(r"[-+]?0[0-9]")
_TWO_MINDS = re.compile("[\x85\u2028\u2029\ufeff]")  # line breaks to YAML 1.1, characters to 1.2
_SURROGATE = re.compile("[\ud800-\udfff]")

# What the parser says, what a person did, and what to do about it. Matched by the beginning of the parser's sentence.
_SAYINGS = (
    (
        "mapping values are not allowed",
        "a colon where none can be",
        "quote text that holds a colon, or add the one the line before lacks",
    ),
    ("could not find expected ':'", "a line without a colon after its name", "write name: value"),
    ("found character '\\t'", "a tab at the start of a line", "indent with spaces"),
    ("found character '%'", "a % at the start of text", "put the text in quotes"),
    ("found character '@'", "an @ at the start of text", "put the text in quotes"),
    ("found character '`'", "a backtick at the start of text", "put the text in quotes"),
    ("found unexpected end of stream", "the end of the file inside quotes", "close the quote"),
    ("expected <block end>", "a line that does not line up with those above it", "indent it like its neighbours"),
    ("expected ',' or ']'", "a list in [ ] that is not closed", "close it with ]"),
    ("expected ',' or '}'", "an object in { } that is not closed", "close it with }"),
    ("found unknown escape character", "an unknown \\ escape in double quotes", "use single quotes, or write \\\\"),
    ("expected '<document start>'", "more after the end of the value", "delete it, or indent it like its neighbours"),
    (
        "sequence entries are not allowed",
        "a - where no list can begin",
        "put the list on lines of its own, or quote the text",
    ),
    ("expected the node content", "a bracket or comma where a value belongs", "put text that begins with it in quotes"),
    ("expected chomping", "more after | or >", "begin the text on the next line, or put it in quotes"),
    ("expected a comment", "more after | or >", "begin the text on the next line, or put it in quotes"),
    ("expected alphabetic", "a * or & at the start of text", "put the text in quotes"),
)


def strict_yaml(text: str) -> tuple[Any, dict[Path, int]]:
    """Read one YAML document; also says in which line (from 1) each value begins. Raises `Malformed`, nothing else."""
    odd = _TWO_MINDS.search(text)
    if odd is not None:
        raise Malformed(
            "ambiguous",
            f"{escaped(odd[0])}, which YAML 1.1 and 1.2 read differently",
            "spaces and plain line breaks",
            remedy=f'delete it, or write it as "{escaped(odd[0])}" in double quotes',
            line=text.count("\n", 0, odd.start()) + 1,
        )
    builder = _Builder(text)
    try:
        return builder.document(), builder.lines
    except ReaderError as error:
        at = text.find(chr(error.character)) if isinstance(error.character, int) else -1
        raise Malformed(
            "not-yaml",
            f"{escaped(chr(error.character)) if at >= 0 else 'a character'}, a control character",
            "text that can be seen",
            remedy="delete that character",
            line=text.count("\n", 0, at) + 1 if at >= 0 else None,
        ) from None
    except MarkedYAMLError as error:
        raise _syntax(error) from None
    except Malformed:
        raise
    except Exception as error:
        raise Malformed(
            "not-yaml",
            f"text that stops the YAML parser ({type(error).__name__})",
            "YAML",
            remedy="write it more plainly, or as JSON",
            line=builder.line or None,
        ) from error


def _syntax(error: MarkedYAMLError) -> Malformed:
    problem = str(error.problem or error.context or "")
    mark = error.problem_mark or error.context_mark
    if problem.startswith(("found unexpected end", "expected ',' or")) and error.context_mark is not None:
        mark = error.context_mark  # where the quote or bracket was opened
    line = mark.line + 1 if mark is not None else None
    column = mark.column + 1 if mark is not None else None
    for begins, found, remedy in _SAYINGS:
        if problem.startswith(begins):
            return Malformed("not-yaml", found, "YAML", remedy=remedy, line=line, column=column)
    return Malformed(
        "not-yaml",
        f"what the YAML parser calls: {printable(problem)}",
        "YAML",
        remedy="mend that line or the one before it: indentation lines up, quotes and brackets are closed",
        line=line,
        column=column,
    )


class _Builder:
    """Values out of events. `line` is where it got to, `lines` where each value began."""

    def __init__(self, text: str) -> None:
        self.line = 0
        self.lines: dict[Path, int] = {}
        self._events: Iterator[Event] = YAML(typ="safe", pure=True).parse(text)

    def _next(self) -> Event:
        event = next(self._events)
        self.line = event.start_mark.line + 1
        return event

    def document(self) -> Any:
        self._next()  # the stream starts
        event = self._next()
        if not isinstance(event, DocumentStartEvent):
            raise Malformed(
                "empty",
                "nothing but comments or space",
                "one YAML document",
                remedy="write the content, or restore it: git checkout -- FILE",
                line=1,
            )
        if event.version not in (None, (1, 2)) or event.tags:
            raise self._fault("not-yaml", "a % directive", "YAML 1.2 without directives", "delete that line", ())
        value = self._value(self._next(), ())
        self._next()  # the document ends
        event = self._next()
        if isinstance(event, DocumentStartEvent):
            raise self._fault("trailing", "a second document (---)", "one document", "split the file", ())
        return value

    def _fault(self, kind: Kind, found: str, wanted: str, remedy: str, path: Path) -> Malformed:
        return Malformed(kind, found, wanted, remedy=remedy, path=path, line=self.line)

    def _value(self, event: Event, path: Path) -> Any:
        self.lines[path] = self.line
        self._plain_node(event, path)
        if isinstance(event, ScalarEvent):
            return self._scalar(event, path)
        if len(path) >= MAX_DEPTH:
            raise self._fault(
                "too-deep",
                f"more than {MAX_DEPTH} lists and objects inside each other",
                f"at most {MAX_DEPTH}",
                "write it flatter",
                path[:3],
            )
        if isinstance(event, SequenceStartEvent):
            items: list[Any] = []
            while not isinstance(inner := self._next(), SequenceEndEvent):
                items.append(self._value(inner, (*path, len(items))))
            return items
        if not isinstance(event, MappingStartEvent):
            raise self._fault("not-yaml", type(event).__name__, "a value", "write it more plainly, or as JSON", path)
        return self._mapping(path)

    def _mapping(self, path: Path) -> dict[str, Any]:
        built: dict[str, Any] = {}
        while not isinstance(event := self._next(), MappingEndEvent):
            name = self._name(event, path)
            if name in built:
                first = self.lines[(*path, name)]
                raise self._fault(
                    "duplicate-key",
                    f"the name {quoted(name)} a second time (first in line {first})",
                    "each name once",
                    "delete one of the two, and keep the value that is meant",
                    (*path, name),
                )
            named_in = self.line
            built[name] = self._value(self._next(), (*path, name))
            self.lines[(*path, name)] = named_in
        return built

    def _plain_node(self, event: Event, path: Path) -> None:
        """Refuse what makes one part of a file depend on another, or its type on a word: anchors, aliases, tags."""
        if isinstance(event, AliasEvent):
            raise self._fault(
                "not-yaml", f"the alias *{printable(str(event.anchor))}", "the value itself", "write it out there", path
            )
        if isinstance(event, NodeEvent) and event.anchor is not None:
            raise self._fault(
                "not-yaml",
                f"the anchor &{printable(str(event.anchor))}",
                "no anchors",
                "delete it, write values out",
                path,
            )
        tag = getattr(event, "tag", None)
        if tag is not None:
            raise self._fault(
                "not-yaml", f"the tag {printable(str(tag))}", "no tags", "delete it; quotes make a value text", path
            )

    def _name(self, event: Event, path: Path) -> str:
        self._plain_node(event, path)
        if not isinstance(event, ScalarEvent):
            raise self._fault("not-yaml", "a list or object as a name", "text", "give it a name that is text", path)
        name: str = event.value
        if event.style is None:
            if name == "<<":
                raise self._fault("not-yaml", "the merge key <<", "the fields themselves", "write them out there", path)
            if not isinstance(self._resolved(name, path), str):
                what = quoted(name) if name else "nothing"
                raise self._fault(
                    "not-yaml", f"{what} as a name", "text", f'put it in quotes: "{clip(name)}"', (*path, name)
                )
        fault = name_fault(name)
        if fault is not None:
            raise self._fault(
                "bad-name", fault, "names of visible characters, in NFC", "type the name anew", (*path, name)
            )
        return name

    def _scalar(self, event: ScalarEvent, path: Path) -> Any:
        text: str = event.value
        if event.style is None:
            return self._resolved(text, path)
        half = _SURROGATE.search(text)
        if half is not None:
            raise self._fault(
                "surrogate",
                f"{escaped(half[0])}, half of a character",
                "whole characters",
                "delete it, or write the character itself",
                path,
            )
        return text

    def _resolved(self, text: str, path: Path) -> Any:
        """Read text without quotes by the core schema, refusing what another reader would take for something else."""
        if text in _NULLS:
            return None
        if text in _BOOLEANS:
            return _BOOLEANS[text]
        if text[0] not in "-+.0123456789":
            return text
        if _UNFINITE.fullmatch(text):
            raise self._number(text, "not-finite", path)
        if _OTHER_BASE.fullmatch(text):
            raise self._ambiguous(text, "a decimal number", path)
        if _REAL.fullmatch(text) is None:
            return text
        if _ZEROS_FIRST.match(text):  # 0503 is 503 to one reader and 323 to another
            raise self._ambiguous(text, "a number that does not begin with 0", path)
        if _WHOLE.fullmatch(text):
            if len(text) > 17 or abs(int(text)) > MAX_WHOLE:
                raise self._number(text, "out-of-range", path)
            return int(text)
        value = float(text)
        kind = number_fault(value, text)
        if kind is not None:
            raise self._number(text, kind, path)
        return value

    def _ambiguous(self, text: str, wanted: str, path: Path) -> Malformed:
        sign, digits = ("-", text[1:]) if text[0] == "-" else ("", text.lstrip("+"))
        plain = digits.lstrip("0") if "." not in digits and digits.isdecimal() else ""
        number = f"write {sign}{clip(plain)}" if plain else "write the number"
        return self._fault(
            "ambiguous", clip(text), wanted, f'{number}, or "{clip(text)}" in quotes if it is text', path
        )

    def _number(self, text: str, kind: Kind, path: Path) -> Malformed:
        return self._fault(kind, *number_texts(text, kind), path)
