"""Pictures of a ladder: every mark is there, what is not bounded has no end, and texts are texts."""

import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.charts import Kind, Point
from drillmaster.charts.drawing import SHAPES
from drillmaster.charts.levels import Panel, Ridge, Rung, Stroke, panels, ridges, rungs, seconds_text

FIGURES = {"p50": Kind("p50", "good", "dot"), "p95": Kind("p95", "other", "diamond"), "max": Kind("max", "bad", "dash")}
CALLS = {"ok": Kind("answered", "good", "dot"), "dropped": Kind("never sent", "worst", "box")}


def _texts(svg: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(svg).iter() if element.tag.endswith("}text")]


def _rungs(*strokes: Stroke, label: str = "warm_c4", barred: str = "") -> str:
    return rungs([Rung(label, "n 60", strokes, barred)], kinds=FIGURES, title="t", description="d", y_title="latency")


def _panels(*points: Point, **more: object) -> str:
    fields = {"label": "warm_c4", "note": "60 calls", "points": points, "x_end": 10.0, **more}
    return panels(
        [Panel(**fields)],  # type: ignore[arg-type]  # a limit, a name for it, a word for a void level
        kinds=CALLS, title="t", description="d", lane="not sent", y_title="latency",
    )  # fmt: skip


def _ridges(*rows: Ridge) -> str:
    return ridges(
        rows, edge=lambda n: float(10.0 ** (n / 20)), tone="good", title="t", description="d", x_title="latency"
    )


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.0000957, "95.7 µs"),
        (0.0431, "43.1 ms"),
        (0.9996, "1 s"),
        (1.2, "1.2 s"),
        (59.94, "59.9 s"),
        (999.7, "1000 s"),
        (0.0009999, "1 ms"),
        (4200, "4200 s"),
    ],
)
def test_a_time_has_the_unit_that_fits(seconds: float, said: str) -> None:
    assert seconds_text(seconds) == said


def test_a_figure_has_its_mark_its_bounds_and_its_value() -> None:
    svg = _rungs(Stroke("p50", 0.1, 0.08, 0.12), Stroke("p95", 0.2, 0.15, 0.3), Stroke("max", 0.4, bounded=False))
    for kind in FIGURES.values():
        assert svg.count(SHAPES[kind.shape][0] + '"') == 1
    assert svg.count("h8M") == 2  # a line with two ends for each that is bounded
    assert 'stroke-dasharray="3 2"' not in svg
    assert {"100 ms", "200 ms", "400 ms", "warm_c4", "n 60"} <= set(_texts(svg))


def test_what_is_not_bounded_is_drawn_open_and_what_was_cut_is_at_least() -> None:
    assert _rungs(Stroke("p95", 0.2, 0.15, None)).count('stroke-dasharray="3 2"') == 1
    cut = _rungs(Stroke("p95", 10.0, censored=True))
    assert cut.count('stroke-dasharray="3 2"') == 1 and "≥ 10 s" in _texts(cut)


def test_a_limit_far_above_squeezes_nothing_and_says_where_it_is() -> None:
    near, far = _rungs(Stroke("p95", 0.2, 0.1, 0.3, limit=0.4)), _rungs(Stroke("p95", 0.2, 0.1, 0.3, limit=90.0))
    assert "limit 400 ms" in _texts(near) and "limit 90 s, above" in _texts(far)
    assert "10 s" not in _texts(far)


def test_a_void_level_says_so_in_words() -> None:
    assert "VOID" in _texts(_rungs(Stroke("p50", 0.1, 0.1, 0.1), barred="VOID"))
    assert "warm_c4 VOID" in _texts(_panels(Point(1, 0.1, "ok"), barred="VOID"))


def test_names_that_find_no_room_are_shortened() -> None:
    many = [Rung(f"warm_c{2**n}", "", (Stroke("p95", 0.2, 0.1, 0.3),)) for n in range(13)]
    said = _texts(rungs(many, kinds=FIGURES, title="t", description="d", y_title="y"))
    assert "warm_c1" in said and "c4096" in said and "warm_c4096" not in said


def test_every_call_has_a_mark_and_what_has_no_value_a_lane() -> None:
    svg = _panels(Point(1, 0.1, "ok"), Point(2, 0.2, "ok"), Point(3, None, "dropped"))
    assert svg.count(SHAPES["dot"][0]) - svg.count("h8") >= 2
    [dots] = re.findall(r'<path d="((?:M[\d.]+ [\d.]+h0)+)"', svg)
    assert dots.count("M") == 2
    [dropped] = re.findall(r'<path d="(M[\d.]+ [\d.]+)m-3-3', svg)
    assert float(dropped.split()[1]) < 48  # above the scale
    assert "not sent" in _texts(svg) and "not sent" not in _texts(_panels(Point(1, 0.1, "ok")))


@given(st.lists(st.tuples(st.floats(0, 10), st.one_of(st.none(), st.floats(1e-7, 1e6))), max_size=20))
def test_marks_stay_inside_their_picture(calls: list[tuple[float, float | None]]) -> None:
    svg = _panels(
        *(Point(x, y, "ok" if y is not None else "dropped") for x, y in calls), limit=1.0, limit_name="limit p95"
    )
    _, _, width, height = map(float, ET.fromstring(svg).attrib["viewBox"].split())
    for x, y in re.findall(r"M([\d.]+) ([\d.]+)", svg):
        assert 0 <= float(x) <= width and 0 <= float(y) <= height


def test_more_levels_than_fit_a_row_go_on_below() -> None:
    level = Panel("warm_c1", "n 1", (Point(1, 0.1, "ok"),), 2.0)
    one, many = (panels([level] * n, kinds=CALLS, title="t", description="d", lane="l", y_title="y") for n in (4, 5))
    heights = [float(ET.fromstring(svg).attrib["viewBox"].split()[3]) for svg in (one, many)]
    assert heights[1] > 1.8 * heights[0]
    assert many.count("warm_c1") == 5


def test_a_histogram_has_a_bar_for_each_bin_and_cut_calls_are_outlined() -> None:
    svg = _ridges(Ridge("warm_c1", "n 60", {-20: 40, -19: 20}, {-2: 3}, (("p50", 0.1), ("p95", 0.12))))
    [full] = re.findall(r'<path d="([^"]*)" style="fill:var\(--mark-good[^"]*fill-opacity:.7"', svg)
    [half] = re.findall(r'<path d="([^"]*)" style="fill:none;stroke:var\(--mark-worst', svg)
    assert (full.count("M"), half.count("M")) == (2, 1)
    assert {"p50 100 ms", "p95 120 ms"} <= set(_texts(svg))


def test_a_few_values_far_below_do_not_stretch_the_scale_and_are_not_lost() -> None:
    svg = _ridges(Ridge("gaps", "n 1001", {-120: 1, -54: 900, -53: 100}, {}))
    assert "1 µs" not in _texts(svg)
    [full] = re.findall(r'<path d="([^"]*)" style="fill:var\(--mark-good', svg)
    assert full.count("M") == 3  # the one far below stands in the first bin


def test_names_are_texts_and_nothing_else() -> None:
    hostile = '</text><script>"&'
    for svg in (
        _rungs(Stroke("p50", 0.1, 0.1, 0.1), label=hostile),
        _panels(Point(1, 0.1, "ok"), label=hostile),
        _ridges(Ridge(hostile, hostile, {0: 1}, {})),
    ):
        assert "<script" not in svg
        assert any(hostile in said for said in _texts(svg))


def test_nothing_at_all_is_a_picture_too() -> None:
    for svg in (
        rungs([], kinds=FIGURES, title="t", description="d", y_title="y"),
        _rungs(),
        panels([], kinds=CALLS, title="t", description="d", lane="l", y_title="y"),
        _panels(),
        _ridges(),
        _ridges(Ridge("a", "n 0", {}, {})),
    ):
        ET.fromstring(svg)
