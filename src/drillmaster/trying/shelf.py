"""The index of faults: what there is and what stands behind each, told without importing an entry.

It is made by `make reference` from the entries, from the captures and from the page of what SDKs do, and ships with the
package, since captures and pages do not. A fault that is not in it yet is listed all the same.
"""

from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import get_args

import msgspec

from drillmaster.errors import Problem
from drillmaster.faults import Group, names
from drillmaster.strict import near

__all__ = ["Cell", "Entry", "Index", "find", "near_misses", "read"]


class Cell(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What one client did with it, as the page of SDKs says it."""

    label: str
    """The fault with its parameters."""
    client: str
    stream: bool
    said: str


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One fault, as far as a list needs it."""

    line: str
    group: str
    scope: str
    proof: str
    needs: tuple[str, ...] = ()
    seen: tuple[str, ...] = ()
    params: tuple[str, ...] = ()
    """The names of its parameters."""
    captured: bool = False
    """Whether its bytes on the wire are kept, and compared by a test."""
    page: bool = False
    sdks: tuple[Cell, ...] = ()


class Index(msgspec.Struct, frozen=True, kw_only=True):
    """All of it."""

    sdks_measured: str
    """The day of the table of SDKs; empty: there is none."""
    clients: dict[str, str]
    """Their versions then."""
    faults: dict[str, Entry]


NOT_YET = Entry(line="(not in the index yet: make reference)", group="other", scope="?", proof="?")


@cache
def read() -> Index:
    """The index, with every fault that is installed and none that is not. Raises Problem where it cannot be read."""
    place = files("drillmaster.faults").joinpath("index.json")
    try:
        index = msgspec.json.decode(place.read_bytes(), type=Index)
    except FileNotFoundError:
        index = Index(sdks_measured="", clients={}, faults={})
    except (OSError, msgspec.DecodeError) as error:
        raise Problem(
            str(place), found=str(error), wanted="the index of faults", remedy="make reference, or install anew"
        ) from None
    there = {tag: index.faults.get(tag, NOT_YET) for tag in names()}
    return msgspec.structs.replace(index, faults=there)


def find(
    words: Iterable[str] = (), *, group: str | None = None, scope: str | None = None, seen: str | None = None
) -> tuple[tuple[str, Entry], ...]:
    """Find the faults whose tag, line, group or parameters hold every one of these words; by group, then by tag.

    `group` and `scope` are where they belong, `seen` what they may leave a client with. A dash and an underscore are the
    same here. Raises Problem for a group, a scope or an end that no fault has.
    """
    every = read().faults
    for option, wanted, known in (
        ("--group", group, {entry.group for entry in every.values()}),
        ("--scope", scope, {entry.scope for entry in every.values()}),
        ("--seen", seen, {end for entry in every.values() for end in entry.seen}),
    ):
        if wanted is not None and wanted not in known:
            meant = near(wanted, known)
            raise Problem(
                option,
                found=repr(wanted[:40]),
                wanted="one of " + ", ".join(sorted(known)),
                remedy=f"did you mean {meant}?" if meant else "write one of these",
            )
    asked = [_plain(word) for word in words]
    found = [
        (tag, entry)
        for tag, entry in every.items()
        if (group is None or entry.group == group)
        and (scope is None or entry.scope == scope)
        and (seen is None or seen in entry.seen)
        and all(word in _plain(" ".join((tag, entry.line, entry.group, *entry.params))) for word in asked)
    ]
    return tuple(sorted(found, key=lambda one: (_ORDER.get(one[1].group, len(_ORDER)), one[0])))


def _plain(text: str) -> str:
    return text.lower().replace("_", "-")


_ORDER = {group: number for number, group in enumerate(get_args(Group))}


def near_misses(word: str) -> tuple[str, ...]:
    """Tags that may have been meant: spelled alike, or that a list of that word would hold; at most five."""
    import difflib

    alike = difflib.get_close_matches(word, names(), 3)
    inside = [tag for tag, _ in find([word])] if word else []
    return tuple(dict.fromkeys([*alike, *inside]))[:5]
