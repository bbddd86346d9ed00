"""Patterns in a schema, read and never run: whether one says which texts it takes, and whether it is a pattern at all."""

import re

__all__ = ["anchored", "whole"]

_OF_WORDS = r"(?:[LN]|\{(?:[LN][a-z]?|L&|Letter|Number|Alphabetic|(?:Script|sc)=\w+)\})"
"""Properties of characters that words are made of. Another one, such as of punctuation, takes what nobody spells."""
_ESCAPE = r"\\x([0-9A-Fa-f]{2})|\\u([0-9A-Fa-f]{4})|\\u\{([0-9A-Fa-f]{1,6})\}|\\(.)|(.)"


def whole(pattern: str) -> bool:
    """Whether brackets and escapes of a pattern end. What else is a fault differs from one language to the next."""
    depth, in_class, escaped = 0, False, False
    for char in pattern:
        if escaped:
            escaped = False
        elif char == "\\":
            escaped = True
        elif in_class:
            in_class = char != "]"
        elif char == "[":
            in_class = True
        elif char in "()":
            depth += 1 if char == "(" else -1
            if depth < 0:
                return False
    return not (depth or in_class or escaped)


def anchored(pattern: str) -> bool:
    """Whether a pattern takes what it spells and no more: both ends fixed, no character or class that stands for any."""
    if not (pattern.startswith("^") and pattern.endswith("$") and not pattern.endswith("\\$")):
        return False
    plain = re.sub(r"\\\\", "", pattern)
    if re.search(r"\\[SWDPB]|\[\^|\\s\\S", plain) or re.search(rf"\\p(?!{_OF_WORDS})", plain) or _wide(plain):
        return False
    in_class = False
    previous = ""
    depth = 0
    for char in plain[1:-1]:
        if previous == "\\":
            previous = ""
            continue
        if char == "[":
            in_class = True
        elif char == "]":
            in_class = False
        elif not in_class:
            depth += {"(": 1, ")": -1}.get(char, 0)
            if char == "." or (char == "|" and depth == 0):  # `^a|b$` is anchored at one end each
                return False
        previous = char
    return True


def _wide(plain: str) -> bool:
    """Whether a class has a range over more than one alphabet.

    That is one from below ASCII's digits to beyond its letters, as `[ -~]`, or from within ASCII to beyond it, as `[0-\\uffff]`.
    """
    for body in re.findall(r"\[((?:\\.|[^\]\\])*)\]", plain):
        chars = []
        for byte, unit, point, escaped, literal in re.findall(_ESCAPE, body, re.DOTALL):
            code = int(byte or unit or point or "0", 16)
            chars.append((chr(min(code, 0x10FFFF)) if byte or unit or point else escaped or literal, not literal))
        for low, dash, high in zip(chars, chars[1:], chars[2:], strict=False):
            if dash == ("-", False) and ((low[0] < "0" and high[0] >= "z") or low[0] < "\x7f" < high[0]):
                return True
    return False
