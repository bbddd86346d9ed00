"""Pictures as SVG text: values in, a string out. No script, no font, no address outside the picture.

1. Colour never speaks alone: each kind of mark has its own shape, and the caller prints a table beside the picture.
2. Colours are CSS variables with a fallback (`--mark-good`, ...), so that a page can have a light and a dark set, and a
   picture that was copied out of it still shows.
3. What has no value is drawn in a lane of its own above the scale. It is not drawn at zero, and it is not left out.
4. Every text is escaped. Coordinates are rounded to a tenth of a unit, so the same values give the same bytes.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Final, Literal

import msgspec

__all__ = ["Band", "Callout", "Kind", "Point", "Rule", "Series", "Tone", "mark", "scatter", "span_text", "steps"]

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
_SHAPES: Final[dict[Shape, tuple[str, bool]]] = {
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


class Point(msgspec.Struct, frozen=True):
    """One mark. `x` in seconds; `y` in seconds, None where there is no value."""

    x: float
    y: float | None
    kind: str


class Band(msgspec.Struct, frozen=True):
    """A stretch of the x axis with a name; `strong` ones are shaded."""

    label: str
    start: float
    end: float
    strong: bool = False


class Rule(msgspec.Struct, frozen=True):
    """An instant worth a line from top to bottom."""

    x: float
    label: str


class Callout(msgspec.Struct, frozen=True):
    """One mark that is ringed and named."""

    x: float
    y: float | None
    label: str


class Series(msgspec.Struct, frozen=True):
    """What is counted in each bin of time, as a rate a second; a `filled` one is drawn as an area."""

    label: str
    tone: Tone
    per_s: tuple[float, ...]
    filled: bool = False


_WIDTH: Final = 960.0
_LEFT: Final = 58.0
_RIGHT: Final = 24.0
_BANDS: Final = 32.0  # base line of the bands' names
_LANE: Final = 62.0  # middle of the lane for marks without a value
_TOP: Final = 84.0
_BOTTOM: Final = 330.0
_HEIGHT: Final = 368.0
_STEPS_S: Final = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 43_200, 86_400)


def scatter(
    points: Sequence[Point],
    *,
    kinds: Mapping[str, Kind],
    x_end: float,
    title: str,
    description: str,
    lane: str,
    y_title: str,
    bands: Sequence[Band] = (),
    rules: Sequence[Rule] = (),
    callout: Callout | None = None,
    prefix: str = "c",
) -> str:
    """Draw marks over time, seconds on a logarithmic scale upwards. `prefix` begins the ids inside the picture.

    Marks are drawn in the order of `kinds`, so the last kind lies on top. An empty picture has its axes.
    """
    low, high = _decades([p.y for p in points if p.y is not None])
    x_end = x_end if math.isfinite(x_end) and x_end > 0 else 1.0

    def across(x: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * min(1.0, max(0.0, x / x_end))

    def up(y: float | None) -> float:
        if y is None:
            return _LANE
        share = (math.log10(max(y, 10.0**low)) - low) / (high - low)
        return _BOTTOM - (_BOTTOM - _TOP) * min(1.0, share)

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_n(_WIDTH)} {_n(_HEIGHT)}" role="img" class="chart"'
        f' aria-labelledby="{prefix}-title {prefix}-desc" font-family="inherit" font-size="12">',
        f'<title id="{prefix}-title">{escape(title)}</title><desc id="{prefix}-desc">{escape(description)}</desc>',
    ]
    out += _ground(bands, across, lane, any(p.y is None for p in points))
    out += _axes(low, high, x_end, across, up, y_title)
    for name, kind in kinds.items():
        marks = "".join(f"M{_n(across(p.x))} {_n(up(p.y))}{_SHAPES[kind.shape][0]}" for p in points if p.kind == name)
        if marks:
            out.append(_path(marks, kind))
    out += [_rule(rule, across(rule.x)) for rule in rules]
    if callout is not None:
        out.append(_callout(callout, across(callout.x), up(callout.y)))
    out.append("</svg>")
    return "".join(out)


def steps(
    series: Sequence[Series],
    *,
    bin_s: float,
    title: str,
    description: str,
    y_title: str,
    bands: Sequence[Band] = (),
    rules: Sequence[Rule] = (),
    prefix: str = "s",
) -> str:
    """Draw rates over time as steps on a scale from zero, the first series at the bottom; shorter than a scatter."""
    top, bottom, height = 44.0, 170.0, 208.0
    x_end = bin_s * max((len(one.per_s) for one in series), default=0) or 1.0
    most = max((value for one in series for value in one.per_s), default=0.0)
    tick = _tick(most)
    scale = max(tick * math.ceil(most / tick - 1e-9), tick)

    def across(x: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * min(1.0, max(0.0, x / x_end))

    def up(y: float) -> float:
        return bottom - (bottom - top) * y / scale

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_n(_WIDTH)} {_n(height)}" role="img" class="chart"'
        f' aria-labelledby="{prefix}-title {prefix}-desc" font-family="inherit" font-size="12">',
        f'<title id="{prefix}-title">{escape(title)}</title><desc id="{prefix}-desc">{escape(description)}</desc>',
    ]
    for band in bands:
        left, right = across(band.start), across(band.end)
        if band.strong:
            out.append(
                f'<rect x="{_n(left)}" y="{_n(top - 12)}" width="{_n(max(0.0, right - left))}"'
                f' height="{_n(bottom - top + 12)}" style="fill:var(--band,#f3e3df)"/>'
            )
        if len(band.label) * 6.4 < right - left:
            out.append(_text((left + right) / 2, 16, band.label, anchor="middle", strong=band.strong))
    for n in range(round(scale / tick) + 1):
        out.append(_line(_LEFT, up(n * tick), _WIDTH - _RIGHT, up(n * tick)))
        out.append(_text(_LEFT - 8, up(n * tick) + 4, f"{n * tick:g}", anchor="end", quiet=True))
    out += _times(x_end, across, bottom, y_title)
    for one in series:
        colour = f"var(--mark-{one.tone},{_FALLBACK[one.tone]})"
        path = f"M{_n(_LEFT)} {_n(up(one.per_s[0]))}" if one.per_s else ""
        for place, value in enumerate(one.per_s):
            path += f"V{_n(up(value))}H{_n(across((place + 1) * bin_s))}"
        if one.filled and path:
            area = f"{path}V{_n(bottom)}H{_n(_LEFT)}z"
            out.append(f'<path d="{area}" style="fill:{colour};fill-opacity:.3;stroke:{colour};stroke-width:1"/>')
        elif path:
            out.append(f'<path d="{path}" style="fill:none;stroke:{colour};stroke-width:2"/>')
    for rule in rules:
        x = _n(across(rule.x))
        out.append(
            f'<path d="M{x} {_n(top - 12)}V{_n(bottom)}" style="fill:none;stroke:var(--ink,#1c1d1f)" stroke-dasharray="5 3"/>'
        )
    out.append("</svg>")
    return "".join(out)


def _tick(most: float) -> float:
    """Choose a step of 1, 2 or 5 times a power of ten, so that four of them or fewer reach to the top."""
    least = most / 4 if most > 0 and math.isfinite(most) else 0.25
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * step for step in (1, 2, 5, 10) if power * step >= least * (1 - 1e-9))


def mark(kind: Kind) -> str:
    """Draw one mark alone, for a legend that stands in text. Its meaning is the text's to say."""
    path = _path(f"M6 6{_SHAPES[kind.shape][0]}", kind)
    return f'<svg viewBox="0 0 12 12" width="12" height="12" aria-hidden="true" class="mark">{path}</svg>'


def span_text(seconds: float) -> str:
    """Write a moment of a run as minutes and seconds, `12:05`; hours only where there are some."""
    whole = int(seconds)
    hours, rest = divmod(whole, 3600)
    minutes, left = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{left:02}" if hours else f"{minutes}:{left:02}"


def _path(marks: str, kind: Kind) -> str:
    colour = f"var(--mark-{kind.tone},{_FALLBACK[kind.tone]})"
    filled = _SHAPES[kind.shape][1]
    if kind.shape == "dot":
        paint = f"fill:none;stroke:{colour};stroke-width:5.4;stroke-linecap:round;stroke-opacity:.8"
    else:
        paint = f"fill:{colour};fill-opacity:.8" if filled else f"fill:none;stroke:{colour};stroke-width:1.6"
    return f'<path d="{marks}" style="{paint}"/>'


def _ground(bands: Sequence[Band], across: Callable[[float], float], lane: str, lane_used: bool) -> list[str]:
    out = []
    for band in bands:
        left, right = across(band.start), across(band.end)
        if band.strong:
            out.append(
                f'<rect x="{_n(left)}" y="{_n(_BANDS + 8)}" width="{_n(max(0.0, right - left))}"'
                f' height="{_n(_BOTTOM - _BANDS - 8)}" style="fill:var(--band,#f3e3df)"/>'
            )
        if len(band.label) * 6.4 < right - left:
            out.append(_text((left + right) / 2, _BANDS, band.label, anchor="middle", strong=band.strong))
    if lane_used:
        out.append(_text(_LEFT - 8, _LANE + 4, lane, anchor="end", quiet=True))
        out.append(_line(_LEFT, _LANE + 11, _WIDTH - _RIGHT, _LANE + 11, dashed=True))
    return out


def _axes(
    low: int, high: int, x_end: float, across: Callable[[float], float], up: Callable[[float], float], y_title: str
) -> list[str]:
    out = []
    for power in range(low, high + 1):
        y = up(10.0**power)
        out.append(_line(_LEFT, y, _WIDTH - _RIGHT, y))
        out.append(_text(_LEFT - 8, y + 4, _duration(power), anchor="end", quiet=True))
    return out + _times(x_end, across, _BOTTOM, y_title)


def _times(x_end: float, across: Callable[[float], float], bottom: float, y_title: str) -> list[str]:
    out = []
    step = next((s for s in _STEPS_S if x_end / s <= 10), _STEPS_S[-1])
    for n in range(int(x_end / step + 1e-6) + 1):
        x = across(n * step)
        out.append(_line(x, bottom, x, bottom + 5))
        out.append(_text(x, bottom + 19, span_text(n * step), anchor="middle", quiet=True))
    out.append(
        _text(_LEFT, bottom + 35, f"{y_title}; time since the start, minutes:seconds", anchor="start", quiet=True)
    )
    return out


def _rule(rule: Rule, x: float) -> str:
    room_right = _WIDTH - _RIGHT - x
    anchor = "start" if room_right > len(rule.label) * 6.4 + 6 else "end"
    line = (
        f'<path d="M{_n(x)} 6V{_n(_BOTTOM)}" style="fill:none;stroke:var(--ink,#1c1d1f);stroke-width:1.25"'
        ' stroke-dasharray="5 3"/>'
    )
    return line + _text(x + (6 if anchor == "start" else -6), 14, rule.label, anchor=anchor, strong=True)


def _callout(callout: Callout, x: float, y: float) -> str:
    colour = "var(--ink,#1c1d1f)"
    anchor = "start" if _WIDTH - _RIGHT - x > len(callout.label) * 6.4 + 30 else "end"
    side = 1 if anchor == "start" else -1
    # The label goes to the side of the mark where the scale has room, with a halo, since other marks may lie under it.
    text_y = y - 26 if y - 26 > _TOP + 8 else y + 34
    lead = text_y + (4 if text_y < y else -10)
    return (
        f'<circle cx="{_n(x)}" cy="{_n(y)}" r="7.5" style="fill:none;stroke:{colour};stroke-width:1.5"/>'
        f'<path d="M{_n(x + side * 5)} {_n(y - 6 if text_y < y else y + 6)}L{_n(x + side * 16)} {_n(lead)}"'
        f' style="fill:none;stroke:{colour};stroke-width:1"/>'
        + _text(x + side * 18, text_y, callout.label, anchor=anchor, strong=True, halo=True)
    )


def _text(
    x: float, y: float, text: str, *, anchor: str, strong: bool = False, quiet: bool = False, halo: bool = False
) -> str:
    colour = "var(--quiet,#5c6066)" if quiet else "var(--ink,#1c1d1f)"
    style = f"fill:{colour}" + (";font-weight:600" if strong else "")
    if halo:
        style += ";paint-order:stroke;stroke:var(--paper,#fff);stroke-width:4;stroke-linejoin:round"
    return f'<text x="{_n(x)}" y="{_n(y)}" text-anchor="{anchor}" style="{style}">{escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, *, dashed: bool = False) -> str:
    dash = ' stroke-dasharray="2 4"' if dashed else ""
    return f'<path d="M{_n(x1)} {_n(y1)}L{_n(x2)} {_n(y2)}" style="fill:none;stroke:var(--rule,#dedbd3)"{dash}/>'


def _decades(values: Sequence[float]) -> tuple[int, int]:
    """Choose the powers of ten (of a second) that hold all values: two at least, from a millisecond to a day."""
    seen = [min(1e5, max(1e-3, value)) for value in values if math.isfinite(value)]
    if not seen:
        return -2, 1
    low, high = math.floor(math.log10(min(seen)) + 1e-9), math.ceil(math.log10(max(seen)) - 1e-9)
    return low, max(high, low + 2)


def _duration(power: int) -> str:
    return f"{10 ** (power + 3)} ms" if power < 0 else f"{10**power} s"


def _n(value: float) -> str:
    return f"{round(value, 1):g}"
