"""Gates: evidence and pinned limits in, checks out. One file an entry, tag = file name; listing reads names only.

A gate is its limits as fields, without defaults, and one pure method. It never reads a file, a clock or the network, and
what a model wrote is no input to it. Add one by adding

- `NAME.py`: the limits, the checks, and the type of evidence where it is this gate's alone;
- `asks/NAME.toml`: what each check asks and how it is mended, and each line of the job's contract with the check that
  answers it or the question that a person has to (`gate explain`, `gate checklist`);
- `_cases/NAME.py`: evidence on which each check goes red, and on which it is green (`gate selftest`);
- and its test.
"""

import importlib
from collections.abc import Iterator
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from drillmaster.errors import Exit, Problem
from drillmaster.verdict import Check, Finding, Status, Verdict

__all__ = ["Case", "Gate", "Shown", "cases", "find", "names"]

E = TypeVar("E")


class Gate(msgspec.Struct, Generic[E], frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="gate"):
    """Limits as fields; `checks` yields everything that was looked at, every time, whatever the outcome."""

    ARTICLE_CODES: ClassVar[dict[str, int]] = {}
    """For scripts written against the articles: exit code by the check that did not pass."""
    ARTICLE_FAIL: ClassVar[int] = 1
    ARTICLE_REFUSED: ClassVar[int] = 1

    def checks(self, evidence: E) -> Iterator[Check]:
        raise NotImplementedError

    def findings(self, evidence: E, checks: tuple[Check, ...]) -> Iterator[Finding]:
        """Say what most likely happened. Findings never change a status."""
        yield from ()

    def headline(self, evidence: E) -> tuple[str, ...]:
        """Say in words what the limits ask for, for the top of every form."""
        return ()

    def closing(self, evidence: E, verdict: Verdict) -> tuple[str, ...]:
        """Say the verdict in the article's own words, which scripts may grep; printed above the last line of the text form."""
        return ()

    @classmethod
    def article_exit(cls, verdict: Verdict) -> int:
        """Give the exit code of `--exit-map articles`: that of the first check, in order, which has one and did not pass."""
        if verdict.status == "pass":
            return Exit.PASS
        missed = (check.id for check in verdict.checks if check.status != "pass")
        fallback = cls.ARTICLE_FAIL if verdict.status == "fail" else cls.ARTICLE_REFUSED
        return next((cls.ARTICLE_CODES[one] for one in missed if one in cls.ARTICLE_CODES), fallback)


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """Evidence on which one check has one status. `check` may end in `*` where ids hold a name (`fixture.*`)."""

    check: str
    status: Status
    gate: Gate[Any]
    evidence: Any


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one check: how often it went red and green as it should, and what is wrong."""

    gate: str
    check: str
    red: int
    green: int
    problems: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        return not self.problems


def names() -> list[str]:
    """List the gates without importing one."""
    import pkgutil

    return sorted(
        m.name.replace("_", "-") for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_") and not m.ispkg
    )


def find(name: str) -> type[Gate]:  # type: ignore[type-arg]  # each gate has its own kind of evidence
    """Import one gate. Raises Problem, with the nearest name, when there is none of that name."""
    if name not in names():
        import difflib

        near = difflib.get_close_matches(name, names(), 1)
        hint = f"did you mean {near[0]}?" if near else f"the gates are {', '.join(names())}"
        raise Problem("gate", found=repr(name), wanted="the name of a gate", remedy=hint)
    module = importlib.import_module(f"{__name__}.{name.replace('-', '_')}")
    gate: type[Gate] = module.gate  # type: ignore[type-arg]  # likewise
    return gate


def cases(name: str) -> Iterator[Case]:
    """Give the evidence on which each check of a gate goes red, and on which it is green."""
    find(name)
    module = importlib.import_module(f"{__name__}._cases.{name.replace('-', '_')}")
    yield from module.cases()
