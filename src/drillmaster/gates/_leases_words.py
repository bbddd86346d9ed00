"""Names of lock credentials, and what in a prompt speaks of leases. Names and words only: no value has a parameter here.

1. A name is taken apart into words: at `_` and other signs, and where small letters turn into capitals. A word in which `LOCK`,
   `LEASE` or `FENCING` stands is one of a lock, once the words are set aside that only contain it: a block, a clock, a release.
   `FENC...` is; so are names of the stores that locks live in (`ETCD_PASSWORD`, `DLMTOKEN`). Letters of other alphabets count
   as what they look like.
2. In a prompt a token is named in whatever way of writing it; a bare `renew` is a flag by itself, as is any other verb of
   holding where it stands by a lock or a lease. "renewable", "press release" and "stealth" are none.
3. Before it is read a line is brought to compatibility form and small letters, without characters that cannot be seen, and
   letters of other alphabets that look like ours are ours.
4. A list of words misses paraphrases. What a model's draft may say is the draft guard's to decide, and not this list's.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Literal

import msgspec

from drillmaster.rules._looks import ALIKE

__all__ = ["Hit", "hits_of", "lock_word"]

_PARTS = re.compile(r"[^A-Za-z0-9]+|(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_STORES = (
    "dlm", "zk", "zookeeper", "consul", "chubby", "redlock", "redsync", "redisson", "etcd", "etcdctl", "mutex", "semaphore",
)  # fmt: skip  # words
_CREDENTIAL = (
    r"(?:token|pass(?:word|wd|phrase)?|pwd|secret|key|auth|cert|user|acl"
    r"|url|uri|dsn|hosts?|addr(?:ess)?|endpoint|node|s)"
)
_STORE = re.compile(rf"(?:{'|'.join(_STORES)}){_CREDENTIAL}*[0-9]*")
_ONLY_CONTAIN = re.compile(
    "|".join(
        (
            "[rb]?eleases?", "releas", "pleases?", "subleas", "(?<!c)(?:road|ad|un|data|sun)?block", "(?:o|un)?clock", "flock",
            "deadlock", "gridlock", "padlock", "wedlock", "warlock", "numlock", "capslock", "scrolllock", "sherlock", "matlock",
            "livelock", "hemlock", "locker", "lockheed", "lockscreen", "lockdown",
        )
    )
)  # fmt: skip  # words


def lock_word(name: str, *, more: Iterable[str] = ()) -> str:
    """Say by what a name is one of a lock; "" where it is none. `more` are patterns of further ones, as in a shell, in any case."""
    pattern = next((one for one in more if fnmatchcase(name.casefold(), one.casefold())), "")
    if pattern:
        return pattern
    for part in _PARTS.split(name if name.isascii() else _plain(name)):
        word = part.lower()
        if not word:
            continue
        if _STORE.fullmatch(word) or word.startswith(("etcd", "fenc", "redlock", "redisson", "zookeeper")):
            return part
        left = _ONLY_CONTAIN.sub(" ", word)
        if "lock" in left or "lease" in left or "fencing" in left:
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
    ("lease deadline", re.compile(
        r"\bleas(?:e|es)(?:'s|s')?[\s_.-]*(?:until|ttl|token|duration|length|seconds|expir\w*|deadline)\b|\bleaseuntil"
        r"|\b(?:ttl|duration|length|expir\w*|deadline)\s+(?:of|for)\s+(?:\w+\s+){0,2}leas(?:e|es)\b"
    )),
    ("lock token", re.compile(
        r"\block(?:'s)?[\s_.-]*(?:token|owner|holder|ttl)\b|\blocktoken|\b(?:token|owner|holder|ttl)\s+of\s+(?:\w+\s+){0,2}lock\b"
    )),
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
        if not line:  # nothing begins there
            continue
        both = f"{line} {lines[number]}" if number < len(lines) else line
        for kind, rows in (("token", _TOKENS), ("verb", _VERBS)):
            begins = (word for word, pattern in rows if any(at.start() < len(line) for at in pattern.finditer(both)))
            for word in dict.fromkeys(begins):
                yield Hit(kind="token" if kind == "token" else "verb", word=word, file=file, line=number)


def _plain(line: str) -> str:
    if line.isascii():
        return line.casefold()
    said = unicodedata.normalize("NFKC", line)
    said = "".join(ALIKE.get(char, char) for char in said).casefold().replace("\u2019", "'")
    return "".join(ALIKE.get(char, char) for char in said if unicodedata.category(char) not in ("Cf", "Mn"))
