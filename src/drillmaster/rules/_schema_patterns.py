"""Patterns in a schema, read and never run: whether one says which texts it takes, and whether it is a pattern at all."""

import re

__all__ = ["anchored", "operates", "whole"]

_OF_WORDS = r"(?:[LN]|\{(?:[LN][a-z]?|L&|Letter|Number|Alphabetic|(?:Script|sc)=\w+)\})"
"""Properties of characters that words are made of. Another one, such as of punctuation, takes what nobody spells."""
_SIGNS = frozenset(chr(one) for one in range(0x20, 0x7F) if not chr(one).isalnum())
_MOST_SIGNS = 14
"""Of ASCII's 33, the space among them: who takes more takes what nobody spells, piece by piece."""
_OPERATORS = frozenset(";&|`$<>\n\r")
"""What a shell takes a line apart by."""
_OF_A_LETTER = {"w": "_", "s": " \t\n\r\v\f", "d": "", "t": "\t", "n": "\n", "r": "\r", "v": "\v", "f": "\f"}
"""What an escape takes beside letters and digits."""
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
    if len(_taken(pattern) & _SIGNS) > _MOST_SIGNS:
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


def operates(pattern: str) -> bool:
    """Whether a class of a pattern takes a sign by which a shell ends one command and begins another, or reads it anew."""
    return bool(_taken(pattern) & _OPERATORS)


def _wide(plain: str) -> bool:
    """Whether a class has a range over more than one alphabet.

    That is one from below ASCII's digits to beyond its letters, as `[ -~]`, or from within ASCII to beyond it, as `[0-\\uffff]`.
    """
    return any(
        (low < "0" and high >= "z") or low < "\x7f" < high for body in _classes(plain) for low, high in _ranges(body)
    )


def _taken(pattern: str) -> frozenset[str]:
    """Give the signs of ASCII that all classes of a pattern take together, its escapes for a kind of character among them."""
    escapes = re.findall(r"\\(.)", pattern, re.DOTALL)
    found = {sign for one in escapes for sign in _OF_A_LETTER.get(one, "")}
    for body in _classes(pattern):
        for low, high in _ranges(body):
            found.update(map(chr, range(ord(low), min(ord(high), 0x7E) + 1)))
    return frozenset(found)


def _classes(pattern: str) -> list[str]:
    return re.findall(r"(?:\\.)|\[((?:\\.|[^\]\\])*)\]", pattern, re.DOTALL)


def _ranges(body: str) -> list[tuple[str, str]]:
    """Give what a class takes, each from a character to a character; an escape for a kind of character is left out."""
    chars = []
    for byte, unit, point, escaped, literal in re.findall(_ESCAPE, body, re.DOTALL):
        code = int(byte or unit or point or "0", 16)
        char = chr(min(code, 0x10FFFF)) if byte or unit or point else escaped or literal
        chars.append((char, not literal, not escaped or not escaped.isalnum()))
    ranges, at = [], 0
    while at < len(chars):
        char, _, itself = chars[at]
        if chars[at + 1 : at + 2] == [("-", False, True)] and at + 2 < len(chars):
            ranges.append((char, chars[at + 2][0]))
            at += 3
            continue
        if itself:
            ranges.append((char, char))
        at += 1
    return ranges
