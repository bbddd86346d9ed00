"""The memory guard: may this lane put these bytes in that place of an agent's working directory?

1. A lane writes the classes of files that the policy gives it (`rules.durable`), and nothing else. What a free lane may never
   write it does not write whatever the policy says.
2. Two paths are asked about: the one that was asked for, and the one to which it leads once links are followed by whoever
   opens it. Both have to be allowed. A path that leads elsewhere than it says is denied.
3. A name has one spelling: printable, in its compatibility form, without spaces at its ends, backslash and colon; and it is
   none that a write under way has. A second name for what is there, by case or by a link, is denied.
4. What was found in the bytes are facts, in numbers: secrets, personal data, and what could not be looked at. The bytes
   themselves are none. A secret is denied to every lane.
5. To move a file is to write its target and to take away its source: both are asked about.
"""

import re
import unicodedata
from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec

from drillmaster.guards import Decision, Guard
from drillmaster.rules.durable import Class, may_write, place

__all__ = ["ARTICLE_GRANTS", "HALF", "REASONS", "Memory", "Write", "allow_write", "guard", "plain"]

REASONS: dict[str, str] = {
    "may-write": "The lane may write this class of file there, and nothing in it speaks against it.",
    "facts-unusable": "A fact has a type or a size that none can have.",
    "lane-unknown": "The policy has no such lane.",
    "path-unsafe": "The path does not say plainly where it leads, or its name has a second spelling.",
    "class-denied": "This lane does not write files of that class there.",
    "leads-elsewhere": "The path leads over a link, onto another disk, or out of the working directory.",
    "second-name": "It would be, or is, another name of a file that is there.",
    "not-a-file": "Something that is no regular file has that name.",
    "too-large": "More bytes than a file may have.",
    "secret": "The bytes, or the name, hold the shape of a secret.",
    "personal-data": "The bytes hold an address or a card number.",
    "unscannable": "Something in the bytes could not be looked at.",
}
ARTICLE_GRANTS: dict[str, frozenset[Class]] = {
    "free_lane": frozenset({"draft", "plan"}),
    "best_effort": frozenset({"draft", "plan"}),
}
"""What a free lane may write by the article: drafts for people, and plans below a temporary folder. No lane else is known."""
HALF = ".drillmaster-half-"
"""What a write under way is called: whoever cleans up after one takes such files away, so nobody else writes them."""
_MOST = 2**53 - 1
_ENCODED = re.compile("%[0-9A-Fa-f]{2}")

_Durable = Literal[
    "memory", "cache", "transcript", "vectors", "plan", "identity", "store", "pointer", "control", "draft", "other"
]


class Write(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is about to be written. There is no field for the bytes."""

    lane: str
    """Who writes, as the policy calls it."""
    path: str
    """Below the working directory, as it was asked for."""
    leads: str
    """Below the working directory, as it was opened, without following a link; "": it leads elsewhere."""
    found: Literal["nothing", "file", "twin", "other"] = "nothing"
    """What has that name: nothing, one file, a file that has or would get a second name, something else."""
    bytes: int
    secrets: int
    personal: int
    unread: int
    """How many things in the bytes could not be looked at."""


class Memory(Guard[None, Write], frozen=True, kw_only=True, tag="memory"):
    """Whether a lane may write a file that a later turn rereads.

    Happens: an agent's tool is about to write, or to move, a file in its working directory.
    Breaks: memory, caches, transcripts and lists of tools that a lane nobody answers for rewrites, under whatever spelling.
    Looks like: one of the reasons.
    Cannot show: a process that writes past the gateway; a secret of no known shape; that what is written is true.
    """

    grants: dict[str, tuple[_Durable, ...]]
    """Which classes each lane writes. What is not said is denied."""
    max_bytes: Annotated[int, msgspec.Meta(ge=1, le=1 << 30)]
    """Of one file."""
    personal: Literal["refuse", "report"]
    """Whether addresses and card numbers deny a write."""

    def step(self, state: None, facts: Write, now_ms: int) -> tuple[None, Decision]:
        """Decide. There is no state."""
        reason = self._judged(facts)
        return None, Decision(allowed=reason == "may-write", reason=reason)

    def _judged(self, one: Write) -> str:
        if not _usable(one):
            return "facts-unusable"
        if one.lane not in self.grants:
            return "lane-unknown"
        if not plain(one.path):
            return "path-unsafe"
        grants: dict[str, frozenset[Class]] = {lane: frozenset(kinds) for lane, kinds in self.grants.items()}
        if not may_write(one.lane, one.path, grants):
            return "class-denied"
        if not one.leads or _steps(one.leads) != _steps(one.path):
            return "leads-elsewhere"
        if not may_write(one.lane, one.leads, grants):
            return "class-denied"
        if one.found != "nothing" and one.found != "file":
            return "second-name" if one.found == "twin" else "not-a-file"
        if one.bytes > self.max_bytes:
            return "too-large"
        if one.secrets:
            return "secret"
        if one.unread:
            return "unscannable"
        return "personal-data" if one.personal and self.personal == "refuse" else "may-write"


def allow_write(lane: object, path: object, grants: Mapping[str, frozenset[Class]] = ARTICLE_GRANTS) -> bool:
    """Whether a lane may write there, by its name alone. A gateway asks with the path that it has opened (`Memory`)."""
    return plain(path) and may_write(lane, path, grants)


def plain(path: object) -> bool:
    """Whether a path says plainly where it leads, and has no second spelling."""
    if type(path) is not str or place(path).kind == "unsafe" or len(path) > 4096:
        return False
    return all(
        part == part.strip()
        and not part.endswith(".")
        and part.isprintable()
        and unicodedata.normalize("NFKC", part) == part
        and not set(part) & set("\\:")
        and _ENCODED.search(part) is None
        and not part.casefold().startswith(HALF)
        and len(part.encode()) <= 255
        for part in _steps(path)
    )


def _steps(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _usable(one: Write) -> bool:
    if any(type(text) is not str for text in (one.lane, one.path, one.leads, one.found)):
        return False
    counts = (one.bytes, one.secrets, one.personal, one.unread)
    return one.found in ("nothing", "file", "twin", "other") and all(type(n) is int and 0 <= n <= _MOST for n in counts)


guard = Memory
