"""Names of lock credentials, and what in a prompt speaks of leases. Names and words only: no value has a parameter here.

1. A name is taken apart into words: at `_` and other signs, and where small letters turn into capitals. `LOCK`, and what begins
   with it, is one of a lock, and so is what ends with it (`REDLOCK`), but for words that only contain it: a block, a clock.
   `FENC...` and `LEASE...` are; so are names of the stores that locks live in (`ETCD_PASSWORD`, `DLM_TOKEN`).
2. In a prompt a token is named in whatever way of writing it; a bare `renew` is a flag by itself, as is any other verb of
   holding where it stands by a lock or a lease. "renewable", "press release" and "stealth" are none.
3. Before it is read a line is brought to compatibility form and small letters, without characters that cannot be seen.
4. A list of words misses paraphrases. What a model's draft may say is the draft guard's to decide, and not this list's.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Literal

import msgspec

__all__ = ["Hit", "hits_of", "lock_word"]

_PARTS = re.compile(r"[^A-Za-z0-9]+|(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_STORES = frozenset({"dlm", "zk", "zookeeper", "consul", "chubby", "redlock", "redsync", "redisson", "etcd", "etcdctl"})
_ONLY_CONTAIN = (
    "block", "clock", "flock", "deadlock", "gridlock", "padlock", "wedlock", "warlock", "roadblock", "numlock", "capslock",
    "scrolllock", "sherlock", "adblock", "oclock", "matlock", "livelock", "unblock", "hemlock",
)  # fmt: skip  # words
_BEGINS_OTHERWISE = ("locker", "lockheed", "lockscreen", "lockdown")


def lock_word(name: str, *, more: Iterable[str] = ()) -> str:
    """Say by what a name is one of a lock; "" where it is none. `more` are patterns of further ones, as in a shell."""
    pattern = next((one for one in more if fnmatchcase(name, one)), "")
    if pattern:
        return pattern
    for part in _PARTS.split(name):
        word = part.lower()
        if not word:
            continue
        if word in _STORES or word.startswith(("etcd", "fenc", "lease")) or word in ("mutex", "semaphore"):
            return part
        if word.startswith("lock") and not word.startswith(_BEGINS_OTHERWISE):
            return part
        stem = word.rstrip("s0123456789")
        if stem.endswith("lock") and not stem.endswith(_ONLY_CONTAIN):
            return part
    return ""


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a file. `word` is of this module's own lists, and never the line's."""

    kind: Literal["token", "verb"]
    word: str
    file: str
    line: int


_TOKENS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("fencing token", re.compile(r"\bfenc(?:e|ing)(?:[\s_.-]*token)?s?\b|\bfencingtoken")),
    ("lease deadline", re.compile(r"\bleas(?:e|es)[\s_.-]*(?:until|ttl|token|duration|seconds|expir\w*|deadline)\b|\bleaseuntil")),
    ("lock token", re.compile(r"\block[\s_.-]*(?:token|owner|holder)\b|\blocktoken")),
)  # fmt: skip  # rows
_LOCK = r"(?:\w*locks?|leas(?:e|es)|mutex(?:es)?|semaphores?|holds?)"
_NEAR = r"(?:[^\w.!?]+\w+){0,3}?[^\w.!?]+"
_OF = r"(?:\s+(?:over|the|a|an|this|that|its|your|our|same|current|on|onto|to))*\s+"
_VERBS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("renew", re.compile(r"\brenew(?:s|ed|ing)?\b")),
    *(
        (word, re.compile(rf"\b{pattern}\b{_NEAR}{_LOCK}\b|\b(?:locks?|leas(?:e|es)|mutex){_NEAR}{pattern}\b"))
        for word, pattern in (
            ("renew", r"renewals?"),
            ("steal", r"(?:steal(?:s|ing)?|stole|stolen)"),
            ("extend", r"(?:extend(?:s|ed|ing)?|extension)"),
            ("release", r"releas(?:e|es|ed|ing)"),
        )
    ),
    ("hold", re.compile(rf"\b(?:keep|keeps|prolongs?|refresh(?:es)?|seize|grab|acquire|takes?|holds?|holding){_OF}{_LOCK}\b")),
)  # fmt: skip  # rows


def hits_of(text: str, file: str) -> Iterator[Hit]:
    """Give what in a file speaks of tokens and of holding, each word once a line. A sentence may go on in the next line."""
    lines = [_plain(line) for line in text.split("\n")]
    for number, line in enumerate(lines, 1):
        both = f"{line} {lines[number]}" if number < len(lines) else line
        for kind, rows in (("token", _TOKENS), ("verb", _VERBS)):
            begins = (word for word, pattern in rows if any(at.start() < len(line) for at in pattern.finditer(both)))
            for word in dict.fromkeys(begins):
                yield Hit(kind="token" if kind == "token" else "verb", word=word, file=file, line=number)


def _plain(line: str) -> str:
    said = unicodedata.normalize("NFKC", line).casefold()
    return "".join(char for char in said if unicodedata.category(char) not in ("Cf", "Mn"))
