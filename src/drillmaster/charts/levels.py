"""Pictures of a ladder: what each level took, call by call, and how it was spread; levels side by side on one scale.

Times are on a logarithmic scale that just holds what is shown, and all levels of a picture share it. What is not bounded is
drawn open, never with an end that nobody measured.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Final

import msgspec

from drillmaster.charts import Point
from drillmaster.charts.drawing import SHAPES, Kind, Tone, colour_of, line, marks_path, opened, tenth, text
from drillmaster.charts.placing import Box, Place, Room, width_of
from drillmaster.spans import SpanUnit, unit_of

__all__ = ["Panel", "Ridge", "Rung", "Stroke", "panels", "ridges", "rungs"]

_WIDTH: Final = 960.0
_LEFT: Final = 58.0
_RIGHT: Final = 14.0


class Stroke(msgspec.Struct, frozen=True):
    """One figure of a rung. `low` and `high` bound it; a `high` of None is not bounded. `censored`: at least `value`."""

    kind: str
    value: float
    low: float | None = None
    high: float | None = None
    censored: bool = False
    bounded: bool = True
    """Whether there is a bound at all to be drawn; a maximum has none."""
    limit: float | None = None


class Rung(msgspec.Struct, frozen=True):
    """One level: its name, a note beneath it, its figures; `barred` says in a word why they settle nothing."""

    label: str
    note: str
    strokes: tuple[Stroke, ...]
    barred: str = ""


class Panel(msgspec.Struct, frozen=True):
    """One level's calls over its own time. A point's `x` and `y` are seconds; `y` None: it has no value."""

    label: str
    note: str
    points: tuple[Point, ...]
    x_end: float
    limit: float | None = None
    limit_name: str = ""
    barred: str = ""


class Ridge(msgspec.Struct, frozen=True):
    """One row of a histogram: counts by bin, of two kinds, and values worth a line. `edge` of a bin is the caller's to say."""

    label: str
    note: str
    bins: Mapping[int, int]
    open_bins: Mapping[int, int]
    lines: tuple[tuple[str, float], ...] = ()


def rungs(
    levels: Sequence[Rung], *, kinds: Mapping[str, Kind], title: str, description: str, y_title: str, prefix: str = "g"
) -> str:
    """Draw figures of levels side by side, each with its bounds as a line, and its limit as a dashed one."""
    width = (_WIDTH - _LEFT - _RIGHT) / max(1, len(levels))
    names = [
        next((n for n in (r.label, r.label.rpartition("_")[2]) if width_of(n, strong=True) < 2 * width - 8), "")
        for r in levels
    ]
    tight = any((width_of(a, strong=True) + width_of(b, strong=True)) / 2 + 8 > width for a, b in pairwise(names))
    top, bottom = 40.0, 300.0
    lower = 15.0 if tight else 0.0
    height = 372.0 + lower
    said = [v for r in levels for s in r.strokes for v in (s.value, s.low, s.high) if v is not None]
    limits = [s.limit for r in levels for s in r.strokes if s.limit is not None]
    unit, seen = unit_of([*said, *limits]), said + _near(limits, said)
    up = _scale(seen, bottom, top + 14)
    out = [opened(_WIDTH, height, title=title, description=description, prefix=prefix)]
    out += _upright(seen, up, _LEFT, _WIDTH - _RIGHT, unit=unit)
    marks: dict[str, str] = {}
    room = Room(_LEFT, _WIDTH)
    values: list[tuple[bool, str, list[Place]]] = []
    caps: list[tuple[str, list[Place]]] = []
    for place, rung in enumerate(levels):
        middle = _LEFT + width * (place + 0.5)
        if rung.barred:
            out.append(_shade(middle - width / 2 + 3, top - 18, width - 6, bottom - top + 18))
            room.take(Place(middle, top - 4).box(rung.barred))
            out.append(text(middle, top - 4, rung.barred, anchor="middle", strong=True))
        step = min(58.0, width / (len(rung.strokes) + 0.05))
        for number, stroke in enumerate(rung.strokes):
            x = middle + step * (number - (len(rung.strokes) - 1) / 2)
            y = up(stroke.value)
            colour = colour_of(kinds[stroke.kind].tone)
            roof = up(stroke.high) if stroke.high is not None else y
            floor = up(stroke.low) if stroke.low is not None else y
            if stroke.low is not None or stroke.high is not None:
                out.append(_whisker(x, floor, roof, colour))
            if stroke.censored or (stroke.high is None and stroke.bounded):
                out.append(_open_end(x, y, colour))
                roof = y - 20
            room.take(Box(x - 5, roof - 3, x + 5, floor + 3))
            marks[stroke.kind] = (
                marks.get(stroke.kind, "") + f"M{tenth(x)} {tenth(y)}{SHAPES[kinds[stroke.kind].shape][0]}"
            )
            if step > 42 or stroke.kind == "p95":
                value = ("≥ " if stroke.censored else "") + unit.text(stroke.value)
                beside = [Place(x + side * 9, y + 4, "start" if side > 0 else "end") for side in (1, -1)]
                off = [Place(x - 14, floor + 16, "start"), Place(x + 14, floor + 16, "end"), Place(x, floor + 29)]
                values.append((stroke.kind == "p95", value, [Place(x, roof - 8), Place(x, floor + 16), *beside, *off]))
                out.append(text(x, bottom + 16, stroke.kind, anchor="middle", quiet=True))
            if stroke.limit is not None:
                over = stroke.limit > 10.0 ** _range(seen)[1]
                cap_y = top + 14 if over else up(stroke.limit)
                out.append(_limit(x - 16, x + 16, cap_y))
                room.take(Box(x - 16, cap_y - 1, x + 16, cap_y + 1))
                above = [Place(x, cap_y + off) for off in (-5, 14, -19, 28, -33)]
                aside = [Place(x + 20, cap_y + 4, "start"), Place(x - 20, cap_y + 4, "end")]
                word = f"limit {unit.text(stroke.limit)}{', above' if over else ''}"
                caps.append((word, [*above[:2], *aside, *above[2:]]))
        # Names that would touch stand in two rows by turns.
        out.append(text(middle, bottom + 34 + lower * (place % 2), names[place], anchor="middle", strong=True))
        if width_of(rung.note) < width:
            out.append(text(middle, bottom + 49 + lower, rung.note, anchor="middle", quiet=True))
    words = [(s, p) for first, s, p in values if first] + caps + [(s, p) for first, s, p in values if not first]
    for word, places in words:
        free = room.place(word, places)
        if free is not None:
            out.append(text(free.x, free.y, word, anchor=free.anchor, halo=True))
    out += [marks_path(marks[name], kind) for name, kind in kinds.items() if name in marks]
    out.append(text(_LEFT, bottom + 69 + lower, y_title, anchor="start", quiet=True))
    out.append("</svg>")
    return "".join(out)


def panels(
    levels: Sequence[Panel],
    *,
    kinds: Mapping[str, Kind],
    title: str,
    description: str,
    lane: str,
    y_title: str,
    prefix: str = "p",
) -> str:
    """Draw the calls of each level over its own time, levels side by side on one scale, at most four a row."""
    across = min(4, max(1, len(levels)))
    rows = -(-len(levels) // across)
    with_lane = any(p.y is None for level in levels for p in level.points)
    row_height, top = 236.0, 48.0 if with_lane else 34.0
    height = row_height * rows + 20
    width = (_WIDTH - _LEFT - _RIGHT) / across
    seen = [p.y for level in levels for p in level.points if p.y is not None]
    limits = [level.limit for level in levels if level.limit is not None]
    unit, along = unit_of([*seen, *limits]), unit_of(level.x_end for level in levels)
    seen += _near(limits, seen)
    out = [opened(_WIDTH, height, title=title, description=description, prefix=prefix)]
    marks: dict[str, list[str]] = {}
    labels: list[str] = []
    for place, level in enumerate(levels):
        row, column = divmod(place, across)
        base = row * row_height
        left, right = _LEFT + column * width + (8 if column else 0), _LEFT + (column + 1) * width - 8
        floor, roof = base + row_height - 34, base + top
        up = _scale(seen, floor, roof)
        if level.barred:
            out.append(_shade(left, base + 22, right - left, floor - base - 22))
        out += _upright(seen, up, left, right, unit=unit, named=column == 0)
        heading = f"{level.label} {level.barred}".rstrip()
        out.append(text(left, base + 14, heading, anchor="start", strong=True))
        if width_of(heading, strong=True) + width_of(level.note) + 12 < right - left:
            out.append(text(right, base + 14, level.note, anchor="end", quiet=True))
        if with_lane:
            out.append(line(left, base + 38, right, base + 38, dashed=True))
            if column == 0:
                out.append(text(_LEFT - 8, base + 34, lane, anchor="end", quiet=True))
        out.append(line(left, floor, right, floor))
        out.append(text(left, floor + 15, "0", anchor="start", quiet=True))
        out.append(text(right, floor + 15, along.text(level.x_end), anchor="end", quiet=True))
        if level.limit is not None:
            over = level.limit > 10.0 ** _range(seen)[1]
            y = roof if over else up(level.limit)
            said = f"{level.limit_name} {unit.text(level.limit)}{', above' if over else ''}"
            out.append(_limit(left, right, y))
            labels.append(text(right, y - 4 if y - 16 > base + 18 else y + 13, said, anchor="end", halo=True))
        for point in level.points:
            x = left + 4 + (right - left - 8) * min(1.0, point.x / level.x_end if level.x_end > 0 else 0.0)
            y = base + 30 if point.y is None else up(point.y)
            marks.setdefault(point.kind, []).append(f"M{tenth(x)} {tenth(y)}{SHAPES[kinds[point.kind].shape][0]}")
    out += [marks_path("".join(marks[name]), kind) for name, kind in kinds.items() if name in marks]
    out += labels  # over the marks, which could cover them
    out.append(text(_LEFT, height - 6, y_title, anchor="start", quiet=True))
    out.append("</svg>")
    return "".join(out)


def ridges(
    rows: Sequence[Ridge],
    *,
    edge: Callable[[int], float],
    tone: Tone,
    title: str,
    description: str,
    x_title: str,
    prefix: str = "h",
) -> str:
    """Draw histograms one above the other on one scale, each as high as its fullest bin."""
    left, row_height, top = 150.0, 58.0, 8.0
    tops = [max((*row.bins, *row.open_bins)) for row in rows if row.bins or row.open_bins]
    low, high = (min(_foot(row) for row in rows) - 1, max(tops) + 2) if tops else (0, 20)
    if high - low < 16:
        low, high = low - (16 - high + low) // 2, high + (17 - high + low) // 2
    bottom = top + row_height * len(rows)
    start, end = math.log10(edge(low)), math.log10(edge(high))

    def across(seconds: float) -> float:
        share = (math.log10(max(seconds, edge(low))) - start) / (end - start)
        return left + (_WIDTH - _RIGHT - left) * min(1.0, share)

    out = [opened(_WIDTH, bottom + 38, title=title, description=description, prefix=prefix)]
    ticks = _ticks(10.0**start, 10.0**end)
    unit = unit_of([*ticks, *(value for row in rows for _, value in row.lines)])
    for value in ticks:
        x = across(value)
        out.append(line(x, top, x, bottom + 4))
        out.append(text(x, bottom + 18, unit.text(value), anchor="middle", quiet=True))
    for place, row in enumerate(rows):
        floor = top + row_height * (place + 1) - 4
        out.append(text(left - 12, floor - 22, row.label, anchor="end", strong=True))
        out.append(text(left - 12, floor - 7, row.note, anchor="end", quiet=True))
        out.append(line(left, floor, _WIDTH - _RIGHT, floor))
        closed, half_open = _gathered(row.bins, low), _gathered(row.open_bins, low)
        most = max([closed.get(n, 0) + half_open.get(n, 0) for n in {*closed, *half_open}], default=0)
        room = row_height - 20
        full = half = ""
        for number in sorted({*closed, *half_open}):
            x, width = across(edge(number)), across(edge(number + 1)) - across(edge(number))
            tall = room * closed.get(number, 0) / most
            if tall:
                full += f"M{tenth(x)} {tenth(floor)}v{tenth(-max(1.0, tall))}h{tenth(width)}V{tenth(floor)}z"
            if number in half_open:
                more = max(2.0, room * half_open[number] / most)
                half += f"M{tenth(x)} {tenth(floor - tall)}v{tenth(-more)}h{tenth(width)}v{tenth(more)}z"
        if full:
            out.append(f'<path d="{full}" style="fill:{colour_of(tone)};fill-opacity:.7"/>')
        if half:
            out.append(
                f'<path d="{half}" style="fill:none;stroke:{colour_of("worst")};stroke-width:1.5" stroke-dasharray="3 2"/>'
            )
        for place, (name, value) in enumerate(row.lines):
            x, said = across(value), f"{name} {unit.text(value)}"
            out.append(
                f'<path d="M{tenth(x)} {tenth(floor)}v{tenth(-room - 4)}" style="fill:none;stroke:var(--ink,#1c1d1f)"/>'
            )
            # The first line's name stands to its left and the last one's to its right, so that they cannot meet.
            before = place < len(row.lines) - 1
            side = -1 if before and x - width_of(said) > left else 1
            out.append(text(x + 4 * side, floor - room + 4, said, anchor="end" if side < 0 else "start", halo=True))
    out.append(text(left, bottom + 34, x_title, anchor="start", quiet=True))
    out.append("</svg>")
    return "".join(out)


def _foot(row: Ridge) -> int:
    """The bin where a row begins to matter: what is below it is less than one in two hundred."""
    counts = sorted(
        (number, row.bins.get(number, 0) + row.open_bins.get(number, 0)) for number in {*row.bins, *row.open_bins}
    )
    total, seen = sum(count for _, count in counts), 0
    for number, count in counts:
        seen += count
        if seen * 200 >= total:
            return number
    return 0


def _gathered(bins: Mapping[int, int], low: int) -> dict[int, int]:
    """Counts by bin, with all that lies below the scale in its first bin."""
    found: dict[int, int] = {}
    for number, count in bins.items():
        found[max(low, number)] = found.get(max(low, number), 0) + count
    return found


def _near(limits: Sequence[float], values: Sequence[float]) -> list[float]:
    """The limits that a scale has room for; one that is far above all that was seen would squeeze it to a line."""
    most = max(values, default=0.0)
    return [limit for limit in limits if not most or limit <= 3 * most]


def _range(values: Sequence[float]) -> tuple[float, float]:
    """The logarithms of a scale that just holds all values: half a power of ten at least."""
    seen = [math.log10(max(value, 1e-5)) for value in values if math.isfinite(value)]
    if not seen:
        return -2.0, 0.0
    low, high = min(seen), max(seen)
    pad = max(0.06 * (high - low), (0.5 - high + low) / 2, 0.02)
    return low - pad, high + pad


def _scale(values: Sequence[float], bottom: float, top: float) -> Callable[[float], float]:
    low, high = _range(values)

    def up(seconds: float) -> float:
        share = (math.log10(max(seconds, 1e-5)) - low) / (high - low)
        return bottom - (bottom - top) * min(1.0, max(0.0, share))

    return up


def _ticks(low: float, high: float) -> list[float]:
    """Round values between two: powers of ten, and 2 and 5 times them where there is room."""
    steps = (1, 2, 5) if high / low < 1e3 else (1,)
    first = math.floor(math.log10(low))
    found = [step * 10.0**power for power in range(first, first + 12) for step in steps]
    return [value for value in found if low * 0.999 <= value <= high * 1.001]


def _upright(
    values: Sequence[float],
    up: Callable[[float], float],
    left: float,
    right: float,
    *,
    unit: SpanUnit,
    named: bool = True,
) -> list[str]:
    low, high = _range(values)
    out = []
    for value in _ticks(10.0**low, 10.0**high):
        out.append(line(left, up(value), right, up(value)))
        if named:
            out.append(text(_LEFT - 8, up(value) + 4, unit.text(value), anchor="end", quiet=True))
    return out


def _whisker(x: float, floor: float, roof: float, colour: str) -> str:
    ends = f"M{tenth(x - 4)} {tenth(floor)}h8M{tenth(x)} {tenth(floor)}V{tenth(roof)}M{tenth(x - 4)} {tenth(roof)}h8"
    return f'<path d="{ends}" style="fill:none;stroke:{colour};stroke-width:1.5"/>'


def _open_end(x: float, y: float, colour: str) -> str:
    return (
        f'<path d="M{tenth(x)} {tenth(y)}v-20m-4 6l4-6 4 6" style="fill:none;stroke:{colour};stroke-width:1.5"'
        ' stroke-dasharray="3 2"/>'
    )


def _limit(left: float, right: float, y: float) -> str:
    return (
        f'<path d="M{tenth(left)} {tenth(y)}H{tenth(right)}" style="fill:none;stroke:var(--ink,#1c1d1f);stroke-width:1.5"'
        ' stroke-dasharray="6 3"/>'
    )


def _shade(left: float, top: float, width: float, height: float) -> str:
    return (
        f'<rect x="{tenth(left)}" y="{tenth(top)}" width="{tenth(width)}" height="{tenth(height)}"'
        ' style="fill:var(--band,#f3e3df)"/>'
    )
