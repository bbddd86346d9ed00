"""The words of a test for a fault, read as rules: `fault("stall", after_events=3, first=1)`.

1. A word is one of a rule's (`when`, `first`, ...) or a parameter of the fault. What could be both is refused, and so is what
   is neither, with what was meant.
2. The fault is made once, here: what it does not take is refused where the test asks for it, not later.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from drillmaster import faults
from drillmaster.errors import Problem
from drillmaster.screen import screen_text
from drillmaster.strict import as_type, near
from drillmaster.targeting import Rule, what_is_wrong

__all__ = ["check", "flag", "lists", "rule_of", "rules_of", "shown"]

_WORDS = frozenset(Rule.__struct_fields__) - {"mode", "params"}


def rule_of(mode: object, given: object, words: dict[str, Any], place: str) -> Rule:
    """A rule from the words of a call; what is no word of a rule is a parameter of the fault, as are those in `given`.

    Raises Problem.
    """
    if not isinstance(mode, str | int) or isinstance(mode, bool):
        raise Problem(place, found=repr(mode)[:60], wanted="a fault's tag", remedy='write "503" or "stall"')
    if given is not None and not isinstance(given, Mapping):
        raise Problem(
            place, found=f"params={given!r}"[:60], wanted="a mapping", remedy='write params={"after_events": 3}'
        )
    params: dict[str, Any] = dict(given or {})
    with _at(place):
        kind = faults.load(str(mode))
    own = set(kind.__struct_fields__)
    chosen: dict[str, Any] = {}
    for word, value in words.items():
        if word in own and word in _WORDS:
            raise Problem(
                place,
                found=f"{word}, which {mode} has as a parameter and rules have as a word",
                wanted="one of the two",
                remedy=f"write params={{{word!r}: {value!r}}}, or a rule: provider.rules([{{'mode': {mode!r}, ...}}])",
            )
        if word in _WORDS:
            chosen[word] = value
        elif word in own and word in params:
            raise Problem(place, found=f"{word} twice", wanted="one value", remedy="leave it out of params")
        elif word in own:
            params[word] = value
        else:
            meant = near(word, own | _WORDS | {"may_miss", "params"})
            raise Problem(
                place,
                found=f"the word {word}",
                wanted=f"a parameter of {mode} ({', '.join(sorted(own)) or 'it has none'}) or one of {', '.join(sorted(_WORDS))}",
                remedy=f"did you mean {meant}?" if meant else "leave it out",
            )
    with _at(place):
        faults.make(str(mode), params)
    rule = as_type(lists({"mode": str(mode), "params": params, **chosen}), Rule, place=place)
    check([rule], place)
    return rule


def rules_of(rules: Sequence[Mapping[str, Any] | Rule], place: str) -> tuple[list[Rule], set[int]]:
    """The rules, and which of them may miss. Raises Problem."""
    given: list[Rule] = []
    missing = set()
    for at, one in enumerate(rules):
        if isinstance(one, Rule):
            given.append(one)
            continue
        words = dict(one)
        if flag(words.pop("may_miss", False), f"{place}: /{at}"):
            missing.add(at)
        given.append(as_type(lists(words), Rule, place=place, path=(at,)))
    if not given:
        raise Problem(place, found="no rule", wanted="one or more", remedy='write {"mode": "503"}')
    for at, rule in enumerate(given):
        with _at(f"{place}: /{at}"):
            faults.make(rule.tag, rule.params)
    check(given, place)
    return given, missing


def flag(value: object, place: str) -> bool:
    """What `may_miss` says. Raises Problem for what only looks like yes or no."""
    if not isinstance(value, bool):
        raise Problem(
            place,
            found=f"may_miss={value!r}"[:60],
            wanted="True or False",
            remedy="write may_miss=True, or leave it out",
        )
    return value


def check(rules: Sequence[Rule], place: str) -> None:
    """Raises Problem for what makes no sense in one of these rules, or in them together."""
    for wrong in what_is_wrong(tuple(rules), lambda tag: faults.load(tag).scope, ""):
        where = wrong.pointer.removeprefix("/0") if len(rules) == 1 else wrong.pointer
        raise Problem(f"{place}: {where}", found=wrong.found, wanted=wrong.wanted, remedy=wrong.remedy)


@contextlib.contextmanager
def _at(place: str) -> Iterator[None]:
    """Say of a problem in here where the test has it."""
    try:
        yield
    except Problem as problem:
        raise Problem(
            f"{place}: {problem.place}", found=problem.found, wanted=problem.wanted, remedy=problem.remedy
        ) from None


def lists(value: Any) -> Any:
    """The value with lists for tuples, as it would come from a file."""
    if isinstance(value, Mapping):
        return {key: lists(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [lists(inner) for inner in value]
    return value


def shown(rule: Rule) -> str:
    """The rule as a test would write it, screened: `stall(after_events=3, first=1)`."""
    said = ", ".join(f"{name}={value!r}" for name, value in rule.params.items())
    whom = msgspec.to_builtins(rule)
    for name in ("mode", "params", "name"):
        whom.pop(name, None)
    words = ", ".join(f"{name}={value!r}" for name, value in whom.items())
    both = ", ".join(part for part in (said, words) if part)
    return screen_text(f"{rule.tag}({both})" if both else rule.tag)
