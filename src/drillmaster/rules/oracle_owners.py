"""`.oracle-owners`: which files decide pass or fail, who answers for each, and where its content comes from.

1. One line is `glob<TAB>owner<TAB>source`, three fields with one tab between two of them. A line that begins with `#` is a
   comment, an empty one is nothing. Spaces in place of tabs are refused: a glob and an owner may hold some.
2. UTF-8 without a byte order mark, in normal form C, no control or format characters.
3. A glob is read by `rules._globs`; one that takes in every file, and a negated one, are refused.
4. Sources are a closed set. None of them is a model.
5. Where several globs fit a file, each of their owners answers for it.
6. A glob stands once. A list without a line names no oracle, and is refused.
"""

import unicodedata
from collections.abc import Iterable

import msgspec

from drillmaster.rules._globs import Globs, pattern_fault

__all__ = ["SOURCES", "Defect", "Oracles", "Owned", "read_oracle_owners"]

SOURCES: dict[str, str] = {
    "git-pin": "a snapshot that was checked into git: OpenAPI, protobuf",
    "staging-record": "recorded from a named staging host",
    "signed-off": "golden content whose commit a person signed off",
    "schema-lock": "compiled from a schema that is locked",
    "human-assert": "asserts that a person wrote",
    "manual-check": "an acceptance check by a named reviewer",
}
MAX_LINES = 5_000


class Owned(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the list."""

    glob: str
    owner: str
    source: str
    line: int


class Defect(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong with a line, from 1 (0: with the whole file), and the one edit or command that mends it."""

    line: int
    what: str
    mend: str


class Oracles:
    """The list, compiled: who owns a path."""

    def __init__(self, rows: Iterable[Owned]) -> None:
        self.rows = tuple(rows)
        self._globs = Globs(row.glob for row in self.rows)
        self._folded = Globs((row.glob for row in self.rows), fold=True)

    def of(self, path: str) -> tuple[Owned, ...]:
        """Give every line whose glob fits a path as it is written."""
        return tuple(self.rows[at] for at in self._globs.fitting(path))

    def alike(self, path: str) -> tuple[Owned, ...]:
        """Give every line that fits only where case, width and invisible characters count for nothing."""
        found = self._folded.fitting(path)
        return () if not found or self._globs.any(path) else tuple(self.rows[at] for at in found)


def read_oracle_owners(data: bytes) -> tuple[tuple[Owned, ...], tuple[Defect, ...]]:
    """Read the list: its lines, and all that is wrong with it. It is used where nothing is."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        return (), (Defect(line=data[: error.start].count(b"\n") + 1, what="no UTF-8", mend="save it as UTF-8"),)
    if text.startswith("\ufeff"):
        return (), (Defect(line=1, what="a byte order mark", mend="sed -i '1s/^\\xEF\\xBB\\xBF//' .oracle-owners"),)
    rows: list[Owned] = []
    defects: list[Defect] = []
    lines = text.split("\n")
    if len(lines) > MAX_LINES:
        return (), (Defect(line=0, what=f"{len(lines):,} lines", mend="name folders in place of files"),)
    for number, raw in enumerate(lines, 1):
        line = raw.removesuffix("\r")
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        read = _row(line, number)
        if isinstance(read, Defect):
            defects.append(read)
        elif any(row.glob == read.glob for row in rows):
            defects.append(Defect(line=number, what=f"{read.glob} a second time", mend="drop one of the two lines"))
        else:
            rows.append(read)
    if not rows and not defects:
        what = "no line that names an oracle"
        defects.append(
            Defect(
                line=0, what=what, mend="add one: printf 'fixtures/**\\tOWNER\\tstaging-record\\n' >> .oracle-owners"
            )
        )
    return tuple(rows), tuple(defects)


def _row(line: str, number: int) -> Owned | Defect:
    def wrong(what: str, mend: str) -> Defect:
        return Defect(line=number, what=what, mend=mend)

    fields = line.split("\t")
    if any(unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") for field in fields for c in field):
        return wrong("a control or format character", "write the line again by hand")
    if len(fields) == 1 and len(line.split()) >= 3:
        return wrong("spaces where tabs belong", "sed -i -E '/^ *#/! s/ +/\\t/g' .oracle-owners")
    if len(fields) != 3:
        return wrong(f"{len(fields)} fields", "write glob, owner and source, with one tab between two of them")
    for name, field in zip(("glob", "owner", "source"), fields, strict=True):
        if not field.strip():
            return wrong(f"an empty {name}", f"fill in the {name}" + (", a person or team" if name == "owner" else ""))
        if field != field.strip():
            return wrong(f"spaces around the {name}", "leave one tab, and no spaces, between two fields")
        if unicodedata.normalize("NFC", field) != field:
            return wrong(f"a {name} that is not in Unicode normal form C", "type it again")
    glob, owner, source = fields
    fault = pattern_fault(glob, "owners")
    if fault:
        return wrong(fault, "write a glob such as fixtures/http/*.json")
    if any(c.isspace() for c in owner):
        return wrong(f"the owner {owner!r}, of several words", "name one person or team, as the roster does")
    if source not in SOURCES:
        return wrong(f"the source {source!r}", f"write one of {', '.join(SOURCES)}")
    return Owned(glob=glob, owner=owner, source=source, line=number)
