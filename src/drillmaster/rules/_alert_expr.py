"""How long a PromQL condition takes to become true once things fail, where its form says so.

What is read: `and`, `or`, `unless`, parentheses, comparisons with a constant, and on the other side
- no range at all: true as soon as the samples say so;
- a rate or an increase compared with 0: likewise, with the first sample that counts a failure;
- a share of two rates over one window W, `bad / all > c`, `1 - good / all > c` or `good / all < c`: of steady traffic of which a
  share s fails, c*W/s after the first failure, and never where s is at most c.
Names of recording rules stand for their expressions. Whatever else has a range takes an unknown time.
"""

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

__all__ = ["Crossing", "crossing", "duration_s", "matchers_of"]

_UNITS_S = {"ms": 0.001, "s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800, "y": 31_536_000}
_DURATION = re.compile(
    r"(?:(\d+)y)?(?:(\d+)w)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?(?:(\d+)ms)?", re.ASCII
)  # units from large to small, each once, as Prometheus has it
_ORDER = ("y", "w", "d", "h", "m", "s", "ms")
_RANGE = re.compile(r"\[\s*([0-9a-z]+)\s*(?::[^\]]*)?\]")
_RATES = re.compile(r"\b(?:rate|increase|irate)\s*\(")
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_COMPARISONS = (">=", "<=", "==", "!=", ">", "<")
_MOST_DEPTH = 40
_MOST_CHARS = 20_000
_OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


class Crossing(msgspec.Struct, frozen=True, kw_only=True):
    """From the first failure to the condition being true, scrapes and evaluations apart. Seconds."""

    best_s: float
    """Everything fails. Infinite: it never becomes true."""
    worst_s: float | None
    """At the share that is known to fail; None: not known."""
    why: str


_ENDLESS = Crossing(best_s=0, worst_s=None, why="recording rules too deep or too long to read")


def duration_s(text: str) -> float | None:
    """Read a duration as Prometheus writes it: 1h30m, 15s, 0; None: it is none."""
    if text == "0":
        return 0.0
    found = _DURATION.fullmatch(text)
    if not text or found is None or not any(found.groups()):
        return None
    return sum(int(number) * _UNITS_S[unit] for unit, number in zip(_ORDER, found.groups(), strict=True) if number)


def crossing(expression: str, recorded: Mapping[str, str], share: float | None) -> Crossing:
    """Say how long an alert's expression takes. `share`: of the calls that fail in the drill; None: not known."""
    if len(expression) > _MOST_CHARS:
        return Crossing(best_s=0, worst_s=None, why="an expression that is too long to read")
    return _of(_without_comments(expression), recorded, share, 0)


def matchers_of(expression: str) -> dict[str, str]:
    """Labels that all selectors of an expression ask for by equality, as far as they agree."""
    found: dict[str, set[str]] = {}
    for name, value in re.findall(r'[{,]\s*([a-zA-Z_]\w*)\s*=\s*"([^"\\]*)"', expression):
        found.setdefault(name, set()).add(value)
    return {name: next(iter(values)) for name, values in found.items() if len(values) == 1}


def _without_comments(text: str) -> str:
    kept, quote = [], ""
    skipping = False
    for at, char in enumerate(text):
        if skipping:
            skipping = char != "\n"
            char = " "
        elif quote:
            quote = "" if char == quote and text[at - 1] != "\\" else quote
        elif char in "\"'`":
            quote = char
        elif char == "#":
            skipping, char = True, " "
        kept.append(char)
    return "".join(kept).strip()


def _of(text: str, recorded: Mapping[str, str], share: float | None, depth: int) -> Crossing:
    text = _bare(text.strip())
    if depth > _MOST_DEPTH:
        return Crossing(best_s=0, worst_s=None, why="an expression that is too deep to read")
    for word, fold in (("or", _either), ("unless", _first), ("and", _both)):
        parts = _split(text, word)
        if len(parts) > 1:
            return fold([_of(_without_matching(part), recorded, share, depth + 1) for part in parts])
    return _condition(text, recorded, share)


def _either(found: list[Crossing]) -> Crossing:
    known = [one.worst_s for one in found if one.worst_s is not None]
    quickest = min(found, key=lambda one: one.best_s)
    return Crossing(best_s=quickest.best_s, worst_s=min(known, default=None), why=quickest.why)


def _both(found: list[Crossing]) -> Crossing:
    slowest = max(found, key=lambda one: (one.worst_s is None, one.worst_s or 0, one.best_s))
    worsts = [one.worst_s for one in found]
    worst = None if None in worsts else max(one for one in worsts if one is not None)
    return Crossing(best_s=max(one.best_s for one in found), worst_s=worst, why=slowest.why)


def _first(found: list[Crossing]) -> Crossing:
    return Crossing(best_s=found[0].best_s, worst_s=None, why=f"{found[0].why}, unless what is excepted holds")


def _condition(text: str, recorded: Mapping[str, str], share: float | None) -> Crossing:
    sides = _comparison(text)
    if sides is None:
        whole = _expanded(text, recorded)
        if whole is None:
            return _ENDLESS
        if _RANGE.search(whole) is None:
            return Crossing(best_s=0, worst_s=0, why="no rate: true as soon as the samples say so")
        return Crossing(best_s=0, worst_s=None, why="no comparison with a constant: when it becomes true is unknown")
    left, op, limit = sides
    whole = _expanded(left, recorded)
    if whole is None:
        return _ENDLESS
    left = _bare(whole)
    windows = set(_RANGE.findall(left))
    if not windows:
        return Crossing(best_s=0, worst_s=0, why="no rate: true as soon as the samples say so")
    window_s = duration_s(next(iter(windows))) if len(windows) == 1 else None
    if window_s is None:
        return Crossing(best_s=0, worst_s=None, why="rates over several windows: when it crosses is unknown")
    needed = _needed_share(left, op, limit)
    if needed is not None:
        return _at_share(needed, window_s, share)
    if op == ">" and limit == 0 and _RATES.search(left):
        return Crossing(
            best_s=0,
            worst_s=0,
            why="above 0 with the first sample that counts a failure, of a counter that was there before",
        )
    span = f"{window_s:g} s"
    return Crossing(best_s=0, worst_s=None, why=f"a rate over {span}: when it crosses {limit:g} depends on the traffic")


def _needed_share(left: str, op: str, limit: float) -> float | None:
    """The share of failures at which a ratio crosses; None: it is no ratio that says so."""
    parts = _split(left, "/")
    if len(parts) == 2 and all(_RANGE.search(part) and _RATES.search(part) for part in parts):
        if op in (">", ">="):
            return limit
        return 1 - limit if op in ("<", "<=") else None
    minus = _split(left, "-")
    if len(minus) == 2 and _constant(minus[0]) == 1 and op in (">", ">="):
        inner = _split(_bare(minus[1].strip()), "/")
        if len(inner) == 2 and all(_RANGE.search(part) and _RATES.search(part) for part in inner):
            return limit
    return None


def _at_share(needed: float, window_s: float, share: float | None) -> Crossing:
    said = f"share of failures above {needed:g} over {window_s:g} s"
    if needed < 0 or needed >= 1:
        return Crossing(best_s=math.inf if needed >= 1 else 0, worst_s=None, why=f"{said}: no share can be")
    best_s = needed * window_s
    if share is None:
        return Crossing(best_s=best_s, worst_s=None, why=f"{said}: {best_s:g} s where every call fails, else unknown")
    if share <= needed:
        return Crossing(best_s=math.inf, worst_s=math.inf, why=f"{said}: never, where {share:g} of the calls fail")
    worst_s = needed * window_s / share
    return Crossing(best_s=worst_s, worst_s=worst_s, why=f"{said}, where {share:g} of the calls fail")


def _expanded(text: str, recorded: Mapping[str, str]) -> str | None:
    """Put the expressions of recording rules in their names' place, a few levels deep; None: there is no end of it."""
    for _ in range(8):
        names = [name for name in set(_NAME.findall(_unquoted(text))) if name in recorded]
        if not names:
            return text
        for name in names:
            expression = f"({_without_comments(recorded[name][:_MOST_CHARS])})"
            if len(text) + text.count(name) * len(expression) > _MOST_CHARS:
                return None
            pattern = rf"(?<![\w:]){re.escape(name)}(?![\w:])(?:\s*\{{[^}}]*\}})?"
            text = re.sub(pattern, expression.replace("\\", r"\\"), text)
    return None


def _unquoted(text: str) -> str:
    return re.sub(r'"(?:[^"\\]|\\.)*"', '""', text)


def _comparison(text: str) -> tuple[str, str, float] | None:
    """Cut `EXPRESSION op NUMBER` (or the other way round) at its comparison."""
    for at, op in _top_level(text):
        left, right = text[:at], text[at + len(op) :]
        right = re.sub(r"^\s*bool\b", "", right)
        limit = _constant(right)
        if limit is not None:
            return left.strip(), op, limit
        limit = _constant(left)
        if limit is not None:
            turned = {">": "<", "<": ">", ">=": "<=", "<=": ">="}.get(op, op)
            return right.strip(), turned, limit
    return None


def _top_level(text: str) -> list[tuple[int, str]]:
    found = []
    at = 0
    depths = _depths(text)
    while at < len(text):
        op = next((one for one in _COMPARISONS if text.startswith(one, at)), None)
        if op is not None and depths[at] == 0:
            found.append((at, op))
        at += len(op) if op is not None else 1
    return found


def _depths(text: str) -> list[int]:
    """How deep in brackets or quotes each character stands; quoted ones at a depth of their own."""
    depths, depth, quote = [], 0, ""
    for at, char in enumerate(text):
        if quote:
            depths.append(depth + 1)
            if char == quote and text[at - 1] != "\\":
                quote = ""
            continue
        if char in ")]}":
            depth -= 1
        depths.append(depth)
        if char in "([{":
            depth += 1
        elif char in "\"'`":
            quote = char
    return depths


def _split(text: str, word: str) -> list[str]:
    """Cut at a word or sign that stands outside of all brackets."""
    depths = _depths(text)
    pattern = rf"(?<![\w:]){word}(?![\w:])" if word.isalpha() else re.escape(word)
    cuts = [found for found in re.finditer(pattern, text, re.IGNORECASE) if depths[found.start()] == 0]
    if word == "-":  # a sign in front is no difference
        cuts = [found for found in cuts if text[: found.start()].strip()]
    parts, at = [], 0
    for found in cuts:
        parts.append(text[at : found.start()])
        at = found.end()
    return [*parts, text[at:]]


def _without_matching(text: str) -> str:
    return re.sub(r"^\s*(?:on|ignoring)\s*\([^)]*\)", "", text)


def _bare(text: str) -> str:
    """Take the brackets away that hold the whole."""
    text = text.strip()
    while text.startswith("(") and text.endswith(")"):
        depths = _depths(text)
        if any(depth == 0 for depth in depths[1:-1]):
            return text
        text = text[1:-1].strip()
    return text


def _constant(text: str) -> float | None:
    text = text.strip()
    if not text or len(text) > 200 or re.search(r"[^0-9.eE+\-*/() ]", text):
        return None
    try:
        found = _value(ast.parse(text, mode="eval").body, 0)
    except (SyntaxError, ValueError, ZeroDivisionError, OverflowError, RecursionError, MemoryError):
        return None
    return found if math.isfinite(found) else None


def _value(node: Any, depth: int) -> float:
    if depth > _MOST_DEPTH:
        raise ValueError("too deep")
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return float(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        value = _value(node.operand, depth + 1)
        return -value if isinstance(node.op, ast.USub) else value
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_value(node.left, depth + 1), _value(node.right, depth + 1))
    raise ValueError("no constant")
