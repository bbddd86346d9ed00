"""Pictures as SVG text: values in, a string out. No script, no font, no address outside the picture.

1. Colour never speaks alone: each kind of mark has its own shape, and the caller prints a table beside the picture.
2. Colours are CSS variables with a fallback (`--mark-good`, ...), so that a page can have a light and a dark set, and a
   picture that was copied out of it still shows.
3. What has no value is drawn in a lane of its own above the scale. It is not drawn at zero, and it is not left out.
4. Every text is escaped. Coordinates are rounded to a tenth of a unit, so the same values give the same bytes.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from drillmaster.charts.drawing import (
    SHAPES,
    Kind,
    Tone,
    colour_of,
    decades,
    duration,
    line,
    marks_path,
    opened,
    tenth,
    text,
    tick_step,
)

__all__ = ["Band", "Callout", "Kind", "Point", "Rule", "Series", "Tone", "mark", "scatter", "span_text", "steps"]


class Point(msgspec.Struct, frozen=True):
    """One mark. `x` in seconds; `y` in seconds, None where there is no value."""

    x: float
    y: float | None
    kind: str


class Band(msgspec.Struct, frozen=True):
    """A stretch of the x axis with a name; `strong` ones are shaded."""

    label: str
    start_s: float
    end_s: float
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
    low, high = decades([p.y for p in points if p.y is not None])
    x_end = x_end if math.isfinite(x_end) and x_end > 0 else 1.0

    def across(x: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * min(1.0, max(0.0, x / x_end))

    def up(y: float | None) -> float:
        if y is None:
            return _LANE
        share = (math.log10(max(y, 10.0**low)) - low) / (high - low)
        return _BOTTOM - (_BOTTOM - _TOP) * min(1.0, share)

    out = [opened(_WIDTH, _HEIGHT, title=title, description=description, prefix=prefix)]
    out += _ground(bands, across, lane, any(p.y is None for p in points))
    out += _axes(low, high, x_end, across, up, y_title)
    for name, kind in kinds.items():
        marks = "".join(
            f"M{tenth(across(p.x))} {tenth(up(p.y))}{SHAPES[kind.shape][0]}" for p in points if p.kind == name
        )
        if marks:
            out.append(marks_path(marks, kind))
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
    tick = tick_step(most)
    scale = max(tick * math.ceil(most / tick - 1e-9), tick)

    def across(x: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * min(1.0, max(0.0, x / x_end))

    def up(y: float) -> float:
        return bottom - (bottom - top) * y / scale

    out = [opened(_WIDTH, height, title=title, description=description, prefix=prefix)]
    for band in bands:
        left, right = across(band.start_s), across(band.end_s)
        if band.strong:
            out.append(
                f'<rect x="{tenth(left)}" y="{tenth(top - 12)}" width="{tenth(max(0.0, right - left))}"'
                f' height="{tenth(bottom - top + 12)}" style="fill:var(--band,#f3e3df)"/>'
            )
        if len(band.label) * 6.4 < right - left:
            out.append(text((left + right) / 2, 16, band.label, anchor="middle", strong=band.strong))
    for n in range(round(scale / tick) + 1):
        out.append(line(_LEFT, up(n * tick), _WIDTH - _RIGHT, up(n * tick)))
        out.append(text(_LEFT - 8, up(n * tick) + 4, f"{n * tick:g}", anchor="end", quiet=True))
    out += _times(x_end, across, bottom, y_title)
    for one in series:
        colour = colour_of(one.tone)
        path = f"M{tenth(_LEFT)} {tenth(up(one.per_s[0]))}" if one.per_s else ""
        for place, value in enumerate(one.per_s):
            path += f"V{tenth(up(value))}H{tenth(across((place + 1) * bin_s))}"
        if one.filled and path:
            area = f"{path}V{tenth(bottom)}H{tenth(_LEFT)}z"
            out.append(f'<path d="{area}" style="fill:{colour};fill-opacity:.3;stroke:{colour};stroke-width:1"/>')
        elif path:
            out.append(f'<path d="{path}" style="fill:none;stroke:{colour};stroke-width:2"/>')
    for rule in rules:
        x = tenth(across(rule.x))
        out.append(
            f'<path d="M{x} {tenth(top - 12)}V{tenth(bottom)}" style="fill:none;stroke:var(--ink,#1c1d1f)" stroke-dasharray="5 3"/>'
        )
    out.append("</svg>")
    return "".join(out)


def mark(kind: Kind) -> str:
    """Draw one mark alone, for a legend that stands in text. Its meaning is the text's to say."""
    path = marks_path(f"M6 6{SHAPES[kind.shape][0]}", kind)
    return f'<svg viewBox="0 0 12 12" width="12" height="12" aria-hidden="true" class="mark">{path}</svg>'


def span_text(seconds: float) -> str:
    """Write a moment of a run as minutes and seconds, `12:05`; hours only where there are some."""
    whole = int(seconds)
    hours, rest = divmod(whole, 3600)
    minutes, left = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{left:02}" if hours else f"{minutes}:{left:02}"


def _ground(bands: Sequence[Band], across: Callable[[float], float], lane: str, lane_used: bool) -> list[str]:
    out = []
    for band in bands:
        left, right = across(band.start_s), across(band.end_s)
        if band.strong:
            out.append(
                f'<rect x="{tenth(left)}" y="{tenth(_BANDS + 8)}" width="{tenth(max(0.0, right - left))}"'
                f' height="{tenth(_BOTTOM - _BANDS - 8)}" style="fill:var(--band,#f3e3df)"/>'
            )
        if len(band.label) * 6.4 < right - left:
            out.append(text((left + right) / 2, _BANDS, band.label, anchor="middle", strong=band.strong))
    if lane_used:
        out.append(text(_LEFT - 8, _LANE + 4, lane, anchor="end", quiet=True))
        out.append(line(_LEFT, _LANE + 11, _WIDTH - _RIGHT, _LANE + 11, dashed=True))
    return out


def _axes(
    low: int, high: int, x_end: float, across: Callable[[float], float], up: Callable[[float], float], y_title: str
) -> list[str]:
    out = []
    for power in range(low, high + 1):
        y = up(10.0**power)
        out.append(line(_LEFT, y, _WIDTH - _RIGHT, y))
        out.append(text(_LEFT - 8, y + 4, duration(power), anchor="end", quiet=True))
    return out + _times(x_end, across, _BOTTOM, y_title)


def _times(x_end: float, across: Callable[[float], float], bottom: float, y_title: str) -> list[str]:
    out = []
    step = next((s for s in _STEPS_S if x_end / s <= 10), _STEPS_S[-1])
    for n in range(int(x_end / step + 1e-6) + 1):
        x = across(n * step)
        out.append(line(x, bottom, x, bottom + 5))
        out.append(text(x, bottom + 19, span_text(n * step), anchor="middle", quiet=True))
    out.append(
        text(_LEFT, bottom + 35, f"{y_title}; time since the start, minutes:seconds", anchor="start", quiet=True)
    )
    return out


def _rule(rule: Rule, x: float) -> str:
    room_right = _WIDTH - _RIGHT - x
    anchor = "start" if room_right > len(rule.label) * 6.4 + 6 else "end"
    upright = (
        f'<path d="M{tenth(x)} 6V{tenth(_BOTTOM)}" style="fill:none;stroke:var(--ink,#1c1d1f);stroke-width:1.25"'
        ' stroke-dasharray="5 3"/>'
    )
    return upright + text(x + (6 if anchor == "start" else -6), 14, rule.label, anchor=anchor, strong=True)


def _callout(callout: Callout, x: float, y: float) -> str:
    colour = "var(--ink,#1c1d1f)"
    anchor = "start" if _WIDTH - _RIGHT - x > len(callout.label) * 6.4 + 30 else "end"
    side = 1 if anchor == "start" else -1
    # The label goes to the side of the mark where the scale has room, with a halo, since other marks may lie under it.
    text_y = y - 26 if y - 26 > _TOP + 8 else y + 34
    lead = text_y + (4 if text_y < y else -10)
    return (
        f'<circle cx="{tenth(x)}" cy="{tenth(y)}" r="7.5" style="fill:none;stroke:{colour};stroke-width:1.5"/>'
        f'<path d="M{tenth(x + side * 5)} {tenth(y - 6 if text_y < y else y + 6)}L{tenth(x + side * 16)} {tenth(lead)}"'
        f' style="fill:none;stroke:{colour};stroke-width:1"/>'
        + text(x + side * 18, text_y, callout.label, anchor=anchor, strong=True, halo=True)
    )
