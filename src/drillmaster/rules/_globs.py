"""Patterns of paths as repositories write them: one small matcher, and a dialect for each file that has such patterns.

1. Paths are git's: `/` between folders, none in front. `*` and `?` stay within one name, `**` as a whole name stands for
   any number of folders, `[a-z]` and `[!a-z]` for one character, `\\` takes the meaning from the next one.
2. A pattern that names a folder takes in everything below it.
3. `owners` (`.oracle-owners`): a pattern fits at any depth, as the article's script matches from the right, unless it
   begins with `/`.
4. `codeowners`: with a `/` in front or in the middle a pattern is anchored at the root, without one it fits at any depth,
   and one that ends in `/*` takes in no deeper folder.
5. Time is linear in the path for each pattern: what stands between two stars is looked for once, and not again.
"""

import re
import unicodedata
from collections.abc import Iterable
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Literal

__all__ = ["Dialect", "Globs", "folded", "pattern_fault"]

Dialect = Literal["owners", "codeowners"]

MAX_PATTERN_CHARS = 500


def pattern_fault(pattern: str, dialect: Dialect) -> str:
    """Say what is wrong with a pattern; empty: nothing is."""
    if not pattern:
        return "an empty pattern"
    if len(pattern) > MAX_PATTERN_CHARS:
        return f"a pattern of {len(pattern)} characters"
    if unicodedata.normalize("NFC", pattern) != pattern:
        return "a pattern that is not in Unicode normal form C"
    if any(unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") for c in pattern):
        return "a control or format character in a pattern"
    if pattern.startswith("!"):
        return "a negated pattern"
    names = pattern.strip("/").split("/")
    if any(name in ("", ".", "..") for name in names):
        return "an empty name, `.` or `..` in a pattern"
    if any("**" in name and name != "**" for name in names):
        return "`**` beside other characters of a name"
    if ("**", "**") in pairwise(names):
        return "`**` twice in a row"
    if dialect == "owners" and all(set(name) == {"*"} for name in names):
        return "a pattern that takes in every file"
    if dialect == "owners" and ("{" in pattern or "}" in pattern) and re.search(r"(?<!\\)[{}]", pattern):
        return "braces, which no matcher of paths here reads as alternatives"
    if dialect == "codeowners" and "[" in pattern and re.search(r"(?<!\\)\[", pattern):
        return "a character range, which code hosts do not read in this file"
    try:
        text = _expression(pattern, dialect)
        if "[" in pattern:  # nothing else can make an expression that is none
            re.compile(text, re.DOTALL)
    except (re.error, ValueError):
        return "a bracket that is not closed, or a range that runs backwards"
    return ""


def folded(path: str) -> str:
    """Give the form in which two names that look alike, or are one on some file systems, are equal."""
    once = unicodedata.normalize("NFKC", path).casefold()
    plain = "".join(c for c in unicodedata.normalize("NFKC", once) if unicodedata.category(c) != "Cf")
    return "/".join(name.rstrip(". ") or name for name in plain.replace("\\", "/").split("/"))


class Globs:
    """Several patterns of one dialect, compiled together; `fitting` gives the numbers of those that fit a path."""

    def __init__(self, patterns: Iterable[str], dialect: Dialect = "owners", *, fold: bool = False) -> None:
        self._texts = [_folded(one, dialect) if fold else _expression(one, dialect) for one in patterns]
        self._any = re.compile("|".join(f"(?:{text})" for text in self._texts), re.DOTALL) if self._texts else None
        self._fold = fold

    def any(self, path: str) -> bool:
        """Whether one of the patterns fits."""
        return self._any is not None and self._any.fullmatch(folded(path) if self._fold else path) is not None

    def fitting(self, path: str) -> tuple[int, ...]:
        """Give the numbers, from 0, of all patterns that fit."""
        path = folded(path) if self._fold else path
        if self._any is None or self._any.fullmatch(path) is None:
            return ()
        return tuple(at for at, one in enumerate(self._each) if one.fullmatch(path))

    @cached_property
    def _each(self) -> list[re.Pattern[str]]:
        return [re.compile(text, re.DOTALL) for text in self._texts]


def _folded(pattern: str, dialect: Dialect) -> str:
    """Give the expression of a folded pattern; of the pattern itself where folding leaves none, as with a wide bracket."""
    try:
        low = folded(pattern)
        text = _expression(low, dialect)
        if "[" in low:
            re.compile(text, re.DOTALL)
    except (re.error, ValueError):
        return _expression(pattern, dialect)
    return text


@lru_cache(maxsize=1024)
def _expression(pattern: str, dialect: Dialect) -> str:
    anchored = pattern.startswith("/")
    only_below = pattern.endswith("/")
    names = pattern.strip("/").split("/")
    if dialect == "codeowners" and len(names) > 1:
        anchored = True
    if not anchored and names[0] != "**":
        names.insert(0, "**")
    files_only = dialect == "codeowners" and names[-1] == "*" and len(names) > 1 and pattern != "*"
    below = "/.+" if only_below else "" if files_only else "(?:/.+)?"
    if names[-1] == "**":  # everything below, and at least one name
        names, below = [*names[:-1]], "/.+" if len(names) > 1 else ".+"
    blocks: list[list[str]] = [[]]
    for name in names:
        if name == "**":
            blocks.append([])
        else:
            blocks[-1].append(_name(name))
    # The earliest place where a block fits is the best one, whatever follows: so it is taken for good, `(?>`.
    text = "/".join(blocks[0])
    for at, block in enumerate(blocks[1:], 1):
        joined = "/".join(block)
        if not joined:
            continue
        text += "/" if text and not text.endswith("/)") else ""
        last = at == len(blocks) - 1
        text += f"(?:[^/]+/)*?{joined}" if last else f"(?>(?:[^/]+/)*?{joined}/)"
    return (text.removesuffix("/") if not below else text) + below


def _name(name: str) -> str:
    """Give the expression of one name. Between stars the same holds as between `**`."""
    parts: list[str] = [""]
    at = 0
    while at < len(name):
        char = name[at]
        at += 1
        if char == "*":
            parts.append("")
        elif char == "?":
            parts[-1] += "[^/]"
        elif char == "[":
            text, at = _range(name, at)
            parts[-1] += text
        else:
            if char == "\\":
                if at == len(name):
                    raise ValueError("a backslash at the end")
                char, at = name[at], at + 1
            parts[-1] += re.escape(char)
    if len(parts) == 1:
        return parts[0]
    middle = "".join(f"(?>[^/]*?{part})" for part in parts[1:-1] if part)
    return f"{parts[0]}{middle}[^/]*{parts[-1]}(?=/|\\Z)" if parts[-1] else f"{parts[0]}{middle}[^/]*"


def _range(name: str, at: int) -> tuple[str, int]:
    negated = name[at : at + 1] in ("!", "^") and name[at : at + 1] != ""
    begin = at + negated
    end = name.find("]", begin + 1)
    if end < 0:
        raise ValueError("a bracket that is not closed")
    inner = re.sub(r"([\\\[\]^&~|])", r"\\\1", name[begin:end])
    return f"(?![/])[{'^' if negated else ''}{inner}]", end + 1
