"""Forms in which people and machines read a verdict: one file a form, named by its tag, imported when it is asked for.

1. A form is a pure function of a `Verdict`, and for card and page of a `RunView` too. It reads no clock and no file.
2. Everything that came out of evidence (names, urls, reasons, titles that quote them) is untrusted: each form writes it
   so that its reader cannot be fooled (`one_line` for terminals, `markdown_line` for wikis, autoescape for the page).
3. Stamps (UNSEALED, UNPROVEN, REHEARSAL, DEMO, COMPRESSED 30x) stand in the heading of every form.
4. A form never changes a verdict, hides a check that did not pass, or adds a number that nobody judged.
5. No text that came from a file holds a secret that we know the look of, or is longer than TEXT_CHARS: `screened` sees to
   it, for a verdict when it is given and for a view when it is made, below whatever the reader of the evidence did. Nor
   does any hold what cannot be written as UTF-8.

`text`, `json` and `issues` need the verdict alone; `card` and `html` want the run as well. Two modules are called like
modules of the standard library: imports are absolute, so nothing is shadowed, and the tag is the file name.
"""

import importlib
import math
import re
from types import ModuleType
from typing import Any, TypeVar

import msgspec

from drillmaster.errors import Problem, one_line
from drillmaster.screen import screen_value
from drillmaster.verdict import Absent, AtLeast, AtMost, Exact, Measure

__all__ = [
    "clip",
    "code_span",
    "encodable",
    "form",
    "forms",
    "limit",
    "markdown_line",
    "measure",
    "number",
    "one_line",
    "quantity",
    "screened",
]

T = TypeVar("T")

TEXT_CHARS = 2_000
"""The longest text in a form, of which the evidence has the whole."""


def screened(value: T) -> T:
    """Screen every text in a value made of structs, tuples, lists and dicts; the same object where nothing changes."""
    return _screened(value)  # type: ignore[no-any-return]  # text stays text, and a struct its kind


def _screened(value: Any) -> Any:
    match value:
        case str():
            return _writable(screen_value(value, TEXT_CHARS))
        case msgspec.Struct():
            changed = {}
            for name in value.__struct_fields__:
                before = getattr(value, name)
                after = _screened(before)
                if after is not before:
                    changed[name] = after
            return msgspec.structs.replace(value, **changed) if changed else value
        case dict():
            pairs = [(name, inner, _screened(name), _screened(inner)) for name, inner in value.items()]
            if all(name is kept and inner is clean for name, inner, kept, clean in pairs):
                return value
            return {kept: clean for _, _, kept, clean in pairs}
        case list() | tuple():
            clean = [_screened(inner) for inner in value]
            same = all(a is b for a, b in zip(value, clean, strict=True))
            return value if same else type(value)(clean)
    return value


def encodable(value: Any) -> Any:
    """Write bytes of a path that are no UTF-8 as escapes, in every text of plain lists and dicts: no JSON can hold them."""
    match value:
        case str():
            return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()
        case dict():
            return {encodable(name): encodable(inner) for name, inner in value.items()}
        case list() | tuple():
            return [encodable(inner) for inner in value]
    return value


def _writable(text: str) -> str:
    """Write what is no Unicode, such as a path of git's in another encoding, with escapes: no form could hold it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return text


def forms() -> list[str]:
    """Name every form, without importing one."""
    import pkgutil

    return sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))


def form(tag: str) -> ModuleType:
    """Import the form called `tag`; `Problem` with a near miss when there is none."""
    names = forms()
    if tag not in names:
        import difflib

        near = difflib.get_close_matches(tag, names, n=1)
        raise Problem(
            "report form",
            found=repr(one_line(tag)[:40]),
            wanted=f"one of {', '.join(names)}",
            remedy=f"did you mean {near[0]}?" if near else "name one of these",
        )
    return importlib.import_module(f"{__name__}.{tag}")


def clip(text: str, most: int) -> str:
    """Cut text to `most` characters, the last of them an ellipsis where something was cut."""
    return text if len(text) <= most else text[: most - 1] + "…"


def markdown_line(text: str) -> str:
    """Write untrusted text into a Markdown line: no markup, no HTML, no link, no image, and nobody is mentioned.

    A zero-width space goes behind an @ that would call a person; a backslash does not stop wikis from doing so.
    """
    text = re.sub(r"[\\`*\[\]<|~$]|&(?=#?\w+;)|(?<!\w)_|_(?!\w)", lambda m: "\\" + m[0], one_line(text))
    return re.sub(r"(?<![\w.])@(?=\w)", "@\u200b", text)


def code_span(text: str) -> str:
    """Write untrusted text as a Markdown code span, which nothing inside it can end."""
    text = one_line(text)
    ticks = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    pad = " " if text.startswith("`") or text.endswith("`") or not text else ""
    return f"{ticks}{pad}{text}{pad}{ticks}"


def number(value: float) -> str:
    """Write a number as a person would: whole ones whole, others to three significant digits, never an exponent."""
    if not math.isfinite(value):
        return "not a finite number"
    if value == int(value):
        return str(int(value))
    magnitude = math.floor(math.log10(abs(value)))
    text = f"{value:.{min(12, max(0, 2 - magnitude))}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def quantity(value: float, unit: str) -> str:
    """Write a number with its unit; a ratio reads as percent."""
    if unit == "ratio" and math.isfinite(value):
        return f"{number(round(value * 100, 9))} %"  # 0.07 * 100 is a hair over 7
    return f"{number(value)} {unit}".rstrip()


def measure(observed: Measure | None, unit: str) -> str:
    """Say a measure in words: `12.3 s`, `at least 900 s`, `1.2 % of 180`, `0 of 360`, or why there is none."""
    n: int | None = None
    match observed:
        case Exact(value=value, n=n, low=low, high=high):
            text = quantity(value, unit)
            if low is not None and high is not None:
                text += f" ({quantity(low, unit)} to {quantity(high, unit)})"
        case AtLeast(value=value, n=n):
            text = f"at least {quantity(value, unit)}"
        case AtMost(value=value, n=n):
            text = f"at most {quantity(value, unit)}"
        case Absent(why=why):
            return f"nothing: {one_line(why)}"
        case None:
            return ""
    if n is None or (n == 1 and unit not in ("", "ratio")):
        return text  # one event's time: that it is one goes without saying
    return f"{text} of {n}" if unit in ("", "ratio") else f"{text} (n = {n})"


def limit(value: float | str | None, unit: str) -> str:
    """Say a limit in words; empty where a check has none."""
    if value is None:
        return ""
    return one_line(value) if isinstance(value, str) else quantity(value, unit)
