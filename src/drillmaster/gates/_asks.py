"""What a gate's checks ask, in words, and which line of its job's contract each one answers: `asks/NAME.toml`, read whole.

1. Every check that a gate can yield has an entry: what it asks, why, how it is mended. `gate explain` prints it.
2. Every line of the contract names the checks that answer it, or is a question for a person that says why no machine can
   know. `gate checklist` prints the questions. At least two thirds of the lines are checks.
3. `shared.toml` holds the checks that every gate has: its policy, who signed it, how often it was tried.
"""

import tomllib
from fnmatch import fnmatchcase
from importlib import resources

import msgspec

from drillmaster.errors import Problem
from drillmaster.gates import find

__all__ = ["Asked", "Asks", "Line", "asks", "shared"]


class Asked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One check. `id` has a `*` where it holds a name: `*.p95`, as in a shell; the first entry that fits is meant."""

    id: str
    asks: str
    because: str
    mend: str
    silent: bool = False
    """It is told only where it does not pass: its green case is that it is not there."""

    def fits(self, check: str) -> bool:
        check = check.partition(" [")[0]  # a run of several windows names the window behind the id
        return check == self.id or ("*" in self.id and fnmatchcase(check, self.id))


class Line(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line of the contract. `section` is where it stands: rule, red flag, table, exit criterion, test plan, case."""

    section: str
    text: str
    checks: tuple[str, ...] = ()
    question: str = ""
    why: str = ""

    def __post_init__(self) -> None:
        if bool(self.checks) == bool(self.question) or bool(self.question) != bool(self.why):
            raise ValueError(f"{self.text!r}: wanted checks, or a question with why no machine can know")


class Asks(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`article` is the contract's source, by its title. `owns` are patterns of this gate's own ids.

    They are for entries that begin with a `*`, which fit ids of other gates too.
    """

    article: str
    owns: tuple[str, ...] = ()
    check: tuple[Asked, ...]
    line: tuple[Line, ...] = ()

    def of(self, check: str) -> Asked | None:
        """Give the entry of a check; the exact one before one with a `*`. A pattern itself is an id too."""
        return next((one for one in self.check if one.id == check), None) or next(
            (one for one in self.check if one.fits(check)), None
        )

    def owning(self, check: str) -> Asked | None:
        """Give the entry of a check where the id itself says that it is this gate's."""
        entry = self.of(check)
        if entry is None or entry.id == check or not entry.id.startswith("*"):
            return entry
        return entry if any(fnmatchcase(check, pattern) for pattern in self.owns) else None

    def table(self) -> list[str]:
        """Write all lines as a Markdown table: where it stands, what it says, and what answers it."""
        rows = [f"| {line.section} | {line.text} | {_answer(line)} |".replace("\n", " ") for line in self.line]
        return ["| section | line | answered by |", "|---|---|---|", *rows]


def _answer(line: Line) -> str:
    if line.question:
        return f"a person: {line.question} No machine can know: {line.why}"
    return ", ".join(f"`{one}`" for one in line.checks)


def asks(name: str) -> Asks:
    """Read one gate's entries. Raises Problem where there is no gate of that name."""
    find(name)
    return _read(f"{name}.toml")


def shared() -> Asks:
    """Read the entries of the checks that every gate has."""
    return _read("shared.toml")


def _read(file: str) -> Asks:
    book = resources.files(__package__).joinpath("asks").joinpath(file)
    if not book.is_file():
        raise Problem(
            f"gates/asks/{file}",
            found="nothing",
            wanted="what each check of the gate asks",
            remedy="write it: a gate that does not say what it asks judges nothing",
        )
    text = resources.files(__package__).joinpath("asks").joinpath(file).read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), Asks)
