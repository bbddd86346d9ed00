"""What a gate's checks ask, in words, and which line of its job's contract each one answers: `asks/NAME.toml`, read whole.

1. Every check that a gate can yield has an entry: what it asks, why, how it is mended. `gate explain` prints it.
2. Every line of the contract names the checks that answer it, or is a question for a person that says why no machine can
   know. `gate checklist` prints the questions. At least two thirds of the lines are checks.
3. `shared.toml` holds the checks that every gate has: its policy, who signed it, how often it was tried.
"""

import tomllib
from importlib import resources

import msgspec

from drillmaster.gates import find

__all__ = ["Asked", "Asks", "Line", "asks", "shared"]


class Asked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One check. `id` may end in `*` where it holds a name: `fixture.*`."""

    id: str
    asks: str
    because: str
    mend: str

    def fits(self, check: str) -> bool:
        return check == self.id or (self.id.endswith("*") and check.startswith(self.id[:-1]))


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
    """`article` is the contract's source, by its title."""

    article: str
    check: tuple[Asked, ...]
    line: tuple[Line, ...] = ()

    def of(self, check: str) -> Asked | None:
        """Give the entry of a check; the exact one before one with a `*`."""
        return next((one for one in self.check if one.id == check), None) or next(
            (one for one in self.check if one.fits(check)), None
        )


def asks(name: str) -> Asks:
    """Read one gate's entries. Raises Problem where there is no gate of that name."""
    find(name)
    return _read(f"{name}.toml")


def shared() -> Asks:
    """Read the entries of the checks that every gate has."""
    return _read("shared.toml")


def _read(file: str) -> Asks:
    text = resources.files(__package__).joinpath("asks").joinpath(file).read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), Asks)
