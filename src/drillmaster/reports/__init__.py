"""Forms in which people and machines read a verdict: one file a form, named by its tag, imported when it is asked for.

1. A form is a pure function of a `Verdict`, and for card and page of a `RunView` too. It reads no clock and no file.
2. Everything that came out of evidence (names, urls, reasons, titles that quote them) is untrusted: each form writes it
   so that its reader cannot be fooled (`one_line` for terminals, `markdown` for wikis, autoescape for the page).
3. Stamps (UNSEALED, UNPROVEN, REHEARSAL, DEMO, COMPRESSED 30x) stand in the heading of every form.
4. A form never changes a verdict, hides a check that did not pass, or adds a number that nobody judged.

`text`, `json` and `issues` need the verdict alone; `card` and `html` want the run as well. Two modules are called like
modules of the standard library: imports are absolute, so nothing is shadowed, and the tag is the file name.
"""

import difflib
import importlib
import math
import pkgutil
import re
from types import ModuleType

from drillmaster.errors import Problem
from drillmaster.verdict import Absent, AtLeast, AtMost, Exact, Measure

__all__ = ["form", "forms", "limit", "measure", "number", "one_line"]

# Controls of both blocks, line and paragraph separators, and the marks that turn the direction of text around: each can
# repaint a terminal or make one line look like two.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")


def forms() -> list[str]:
    """Name every form, without importing one."""
    return sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))


def form(tag: str) -> ModuleType:
    """Import the form called `tag`; `Problem` with a near miss when there is none."""
    names = forms()
    if tag not in names:
        near = difflib.get_close_matches(tag, names, n=1)
        raise Problem(
            "report form",
            found=repr(one_line(tag)[:40]),
            wanted=f"one of {', '.join(names)}",
            remedy=f"did you mean {near[0]}?" if near else "name one of these",
        )
    return importlib.import_module(f"{__name__}.{tag}")


def one_line(text: str) -> str:
    """Make text safe for one line of a terminal: controls and direction marks become visible escapes."""
    return _UNSAFE.sub(lambda m: f"\\x{ord(m[0]):02x}" if ord(m[0]) < 256 else f"\\u{ord(m[0]):04x}", text)


def number(value: float) -> str:
    """Write a number as a person would: four significant digits at most after the point, no exponent below 1e15."""
    if not math.isfinite(value):
        return "not a finite number"
    if value == int(value) and abs(value) < 1e15:
        return str(int(value))
    magnitude = math.floor(math.log10(abs(value)))
    text = f"{value:.{max(0, 3 - magnitude)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _quantity(value: float, unit: str) -> str:
    if unit == "ratio" and math.isfinite(value):
        return f"{number(value * 100)} %"
    return f"{number(value)} {unit}".rstrip()


def measure(observed: Measure | None, unit: str) -> str:
    """Say a measure in words: `12.3 s`, `at least 900 s`, `1.2 % of 180`, or why there is none; a ratio as percent."""
    match observed:
        case Exact(value=value, n=n, low=low, high=high):
            text = _quantity(value, unit)
            if low is not None and high is not None:
                text += f" ({_quantity(low, unit)} to {_quantity(high, unit)})"
        case AtLeast(value=value, n=n):
            text = f"at least {_quantity(value, unit)}"
        case AtMost(value=value, n=n):
            text = f"at most {_quantity(value, unit)}"
        case Absent(why=why):
            return f"nothing: {one_line(why)}"
        case None:
            return ""
    return f"{text} of {n}" if n is not None and unit == "ratio" else text if n is None else f"{text} (n = {n})"


def limit(value: float | str | None, unit: str) -> str:
    """Say a limit in words; empty where a check has none."""
    if value is None:
        return ""
    return one_line(value) if isinstance(value, str) else _quantity(value, unit)
