"""What pictures are drawn with: marks, texts, lines, colours and scales, as pieces of SVG."""

import math
from collections.abc import Sequence
from html import escape
from typing import Final, Literal

import msgspec

__all__ = [
    "SHAPES",
    "Kind",
    "Shape",
    "Tone",
    "colour_of",
    "decades",
    "duration",
    "line",
    "marks_path",
    "opened",
    "tenth",
    "text",
    "tick_step",
]

Tone = Literal["good", "other", "unsure", "soft", "bad", "worst"]
Shape = Literal[
    "dot",
    "diamond",
    "lozenge",
    "triangle",
    "wedge",
    "square",
    "box",
    "cross",
    "plus",
    "star",
    "bar",
    "dash",
    "gate",
    "half",
]

_FALLBACK: Final[dict[Tone, str]] = {
    "good": "#2a7f62",
    "other": "#2f5fb3",
    "unsure": "#5b7f8c",
    "soft": "#a86a10",
    "bad": "#c2571a",
    "worst": "#b3261e",
}
# Each is drawn relative to the mark's middle, in few bytes, since a picture holds thousands. Outlined ones are not filled.
SHAPES: Final[dict[Shape, tuple[str, bool]]] = {
    "dot": ("h0", False),  # a line of no length with round ends
    "diamond": ("m0-4l4 4-4 4-4-4z", True),
    "lozenge": ("m0-4l4 4-4 4-4-4z", False),
    "triangle": ("m0-4l4 7h-8z", True),
    "wedge": ("m0 4l4-7h-8z", False),
    "square": ("m-3-3h6v6h-6z", True),
    "box": ("m-3-3h6v6h-6z", False),
    "cross": ("m-3-3l6 6m0-6l-6 6", False),
    "plus": ("m-4 0h8m-4-4v8", False),
    "star": ("m-4 0h8m-6.5-3.5l5 7m0-7l-5 7", False),
    "bar": ("m0-4.5v9", False),
    "dash": ("m-4 0h8", False),
    "gate": ("m-2-4v8m4-8v8", False),
    "half": ("m3-3h-6v6h6", False),
}


class Kind(msgspec.Struct, frozen=True):
    """How marks of one kind look, and what they are called."""

    label: str
    tone: Tone
    shape: Shape


def colour_of(tone: Tone) -> str:
    """A tone's colour: the page's variable, else its own."""
    return f"var(--mark-{tone},{_FALLBACK[tone]})"


def opened(width: float, height: float, *, title: str, description: str, prefix: str) -> str:
    """Begin a picture that says in words what it shows. `prefix` begins the ids inside it."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {tenth(width)} {tenth(height)}" role="img" class="chart"'
        f' aria-labelledby="{prefix}-title {prefix}-desc" font-family="inherit" font-size="12">'
        f'<title id="{prefix}-title">{escape(title)}</title><desc id="{prefix}-desc">{escape(description)}</desc>'
    )


def marks_path(marks: str, kind: Kind) -> str:
    """Draw marks of one kind: `M`, a place, and their shape, as often as there are any."""
    colour = colour_of(kind.tone)
    filled = SHAPES[kind.shape][1]
    if kind.shape == "dot":
        paint = f"fill:none;stroke:{colour};stroke-width:5.4;stroke-linecap:round;stroke-opacity:.8"
    else:
        paint = f"fill:{colour};fill-opacity:.8" if filled else f"fill:none;stroke:{colour};stroke-width:1.6"
    return f'<path d="{marks}" style="{paint}"/>'


def text(
    x: float, y: float, text: str, *, anchor: str, strong: bool = False, quiet: bool = False, halo: bool = False
) -> str:
    """Write one line. `anchor`: start, middle or end; `halo`: other marks may lie under it."""
    colour = "var(--quiet,#5c6066)" if quiet else "var(--ink,#1c1d1f)"
    style = f"fill:{colour}" + (";font-weight:600" if strong else "")
    if halo:
        style += ";paint-order:stroke;stroke:var(--paper,#fff);stroke-width:4;stroke-linejoin:round"
    return f'<text x="{tenth(x)}" y="{tenth(y)}" text-anchor="{anchor}" style="{style}">{escape(text)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, *, dashed: bool = False) -> str:
    """Draw a line of the ground."""
    dash = ' stroke-dasharray="2 4"' if dashed else ""
    return f'<path d="M{tenth(x1)} {tenth(y1)}L{tenth(x2)} {tenth(y2)}" style="fill:none;stroke:var(--rule,#dedbd3)"{dash}/>'


def tick_step(most: float) -> float:
    """Choose a step of 1, 2 or 5 times a power of ten, so that four of them or fewer reach to the top."""
    least = most / 4 if most > 0 and math.isfinite(most) else 0.25
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * step for step in (1, 2, 5, 10) if power * step >= least * (1 - 1e-9))


def decades(values: Sequence[float]) -> tuple[int, int]:
    """Choose the powers of ten (of a second) that hold all values: at least two, none of them above all values."""
    seen = [min(1e5, max(1e-3, value)) for value in values if math.isfinite(value)]
    if not seen:
        return -2, 1
    low, high = math.floor(math.log10(min(seen)) + 1e-9), math.ceil(math.log10(max(seen)) - 1e-9)
    return min(low, high - 2), high


def duration(power: int) -> str:
    """Write a power of ten of a second."""
    return f"{10 ** (power + 3)} ms" if power < 0 else f"{10**power} s"


def tenth(value: float) -> str:
    """Write a coordinate, rounded to a tenth."""
    return f"{round(value, 1):g}"
