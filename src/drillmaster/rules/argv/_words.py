"""Words of a command: what a program is called whatever its path, and how a word is shown."""

import re

import msgspec

from drillmaster.screen import MARK
from drillmaster.strict import SECRET_NAME

__all__ = ["Fault", "named", "printable"]


class Fault(msgspec.Struct, frozen=True):
    """Why a command may not start a tool: the kind, which word of it (the program is 0), and what was found."""

    kind: str
    """shape, shell, evaluates, runs-others, fetches, unpinned, mount, option, variable, unclean, not-absolute, unlisted."""
    at: int
    found: str


def named(path: str) -> str:
    """Give what a program is called: no folder, no suffix of Windows, no version; `python3.11` is python, `bash5` bash."""
    name = re.split(r"[/\\]", path.strip())[-1].strip().casefold()
    name = re.sub(r"(\.(exe|cmd|bat|com|ps1))+$", "", name)
    # By hand: a pattern that is anchored at the end alone takes a square of a long name.
    plain = name.rstrip("0123456789.")
    if not any(char.isdigit() for char in name[len(plain) :]):
        return name
    plain = plain[:-1] if plain.endswith(("-", "_")) else plain
    return plain or name


def printable(word: str) -> str:
    """Show a word of a command, short; a long run that could be a key is cut."""
    text = "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in word[:120])
    option, _, value = text.partition("=")
    if value and (SECRET_NAME.search(option) or re.search("(?i)(^|[-_])(pass|pwd|key|auth|pat)$", option)):
        text = f"{option}={MARK}"
    text = re.sub(
        r"[A-Za-z0-9_+/=-]{32,}",
        lambda run: run[0] if re.fullmatch("[0-9a-f]+|[a-z-]+", run[0]) else f"{run[0][:6]}…",
        text,
    )
    return '"' + (text if len(text) <= 80 else text[:79] + "…") + '"'
