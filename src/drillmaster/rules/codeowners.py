"""CODEOWNERS as code hosts read it: who is asked about a path.

1. A line is a pattern and then owners: `@login`, `@org/team`, an address. The last line that fits a path decides; one
   without owners takes them away. What follows ` #` is a comment. A blank in a pattern is written `\\ `.
2. `[Name]`, `^[Name]` and `[Name][2]` begin a section, on the host that has sections; owners behind the name are for the
   lines of it that name none. Each section has an answer of its own, and all of them are asked. Sections of one name,
   whatever its case, are one. `!pattern` takes a path out of its section, whatever stands below it there.
3. In a file without any section `!pattern` is read by one host and skipped by another: it is a defect here, never skipped.
   A file with sections is for the host that has them, and there the lines above the first one may leave paths out too.
4. A line that a host would skip without a word is a defect: the file it was to protect would have no owner.
"""

import re
import unicodedata
from typing import NamedTuple

from drillmaster.rules._globs import Globs, pattern_fault

__all__ = ["PLACES", "CodeOwners", "read_codeowners"]

PLACES = (".github/CODEOWNERS", ".gitlab/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS")
"""Where hosts look, in the order in which they do."""

_SECTION = re.compile(r"(\^)?\[([^\[\]]+)\](?:\[(\d+)\])?(?:\s+(.*))?")
_OWNER = re.compile(r"@@?[\w.-]+(?:/[\w.-]+)*|[^\s@]+@[^\s@]+\.[^\s@]+", re.UNICODE)
MAX_BYTES = 3 << 20
"""The largest that a host reads; a larger one it ignores."""


class _Rule(NamedTuple):
    globs: Globs
    owners: tuple[str, ...]
    line: int
    negated: bool


class CodeOwners(NamedTuple):
    """The file, compiled. `defects` are (line, what); with one of them it is not used."""

    sections: tuple[tuple[str, tuple[_Rule, ...]], ...]
    defects: tuple[tuple[int, str], ...]

    def of(self, path: str) -> tuple[str, ...]:
        """Give whom the file names for a path, over all sections, in order; empty: nobody."""
        found: dict[str, None] = {}
        for _, rules in self.sections:
            if any(rule.negated and rule.globs.any(path) for rule in rules):
                continue
            last = next((rule for rule in reversed(rules) if not rule.negated and rule.globs.any(path)), None)
            found |= dict.fromkeys(last.owners if last is not None else ())
        return tuple(found)


def read_codeowners(data: bytes) -> CodeOwners:
    """Read the file, with all that is wrong with it."""
    if len(data) > MAX_BYTES:
        return CodeOwners((), ((0, f"{len(data):,} bytes, which hosts do not read"),))
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return CodeOwners((), ((data[: error.start].count(b"\n") + 1, "no UTF-8"),))
    defects: list[tuple[int, str]] = []
    sections: dict[str, list[_Rule]] = {"": []}
    named, defaults = "", ()  # type: str, tuple[str, ...]
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        if any(unicodedata.category(c) in ("Cf", "Cs", "Zl", "Zp") or (c < " " and c != "\t") for c in line):
            defects.append((number, "a control or format character"))
            continue
        section = _SECTION.fullmatch(re.sub(r"\s#.*", "", line).strip())
        if section is not None:
            named, owners = section[2].strip().casefold(), (section[4] or "").split()
            defects += [(number, f"no owner: {one}") for one in owners if _OWNER.fullmatch(one) is None]
            defaults = tuple(owners)
            sections.setdefault(named, [])
            continue
        rule = _rule(line, number, defaults=defaults)
        if isinstance(rule, str):
            defects.append((number, rule))
        else:
            sections[named].append(rule)
    if len(sections) == 1:
        said = "a negated pattern, which one host reads and another skips"
        defects = sorted(defects + [(rule.line, said) for rule in sections[""] if rule.negated])
    if not defects and not any(sections.values()):
        defects.append((0, "no line that names an owner"))
    return CodeOwners(tuple((name, tuple(rules)) for name, rules in sections.items()), tuple(defects))


def _rule(line: str, number: int, *, defaults: tuple[str, ...]) -> _Rule | str:
    words = [word.replace("\0", "\\ ") for word in line.replace("\\ ", "\0").split()]
    pattern, owners = words[0], []
    for word in words[1:]:
        if word.startswith("#"):
            break
        owners.append(word)
    negated = pattern.startswith("!")
    if negated and owners:
        return "a negated pattern with owners"
    if pattern.startswith("\\#"):
        return "an escaped #, which hosts read as a comment"
    fault = pattern_fault(pattern.removeprefix("!"), "codeowners")
    if fault:
        return fault
    bad = [owner for owner in owners if _OWNER.fullmatch(owner) is None]
    if bad:
        return f"no owner: {bad[0]}"
    globs = Globs([pattern.removeprefix("!")], "codeowners")
    return _Rule(globs, tuple(owners) or defaults, number, negated)
