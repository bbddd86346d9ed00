"""Pictures of a ladder: every mark is there, what is not bounded has no end, and texts are texts."""

import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.charts import Kind, Point
from drillmaster.charts.drawing import SHAPES
from drillmaster.charts.levels import Panel, Ridge, Rung, Stroke, panels, ridges, rungs
from drillmaster.charts.placing import Place

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
    many = [Rung(f"warm_c{2**n}", "", (Stroke("p95", 0.2, 0.1, 0.3),)) for n in range(26)]
    said = _texts(rungs(many, kinds=FIGURES, title="t", description="d", y_title="y"))
    assert {"c1", "c4096"} <= set(said) and not any("warm_" in one for one in said)


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
    assert {"p50 0.1 s", "p95 0.12 s"} <= set(_texts(svg))  # 1 s is a tick


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


def _words(svg: str) -> list[tuple[str, Place]]:
    """Values and limits, with the halo that words among marks have, and where they stand."""
    found = []
    for element in ET.fromstring(svg).iter():
        if element.tag.endswith("}text") and "paint-order" in element.attrib["style"]:
            at = element.attrib
            found.append((element.text or "", Place(float(at["x"]), float(at["y"]), at["text-anchor"])))  # type: ignore[arg-type]  # an anchor of ours
    return found


def _many(callers: list[int], limit: bool = True) -> str:
    levels = [
        Rung(
            f"warm_c{n}",
            "n 60",
            (
                Stroke("p50", 0.4 + 0.03 * at, 0.38 + 0.03 * at, 0.45 + 0.03 * at),
                Stroke("p95", 0.9 + 0.02 * at, 0.8, 1.2, limit=1 + 0.2 * at if limit else None),
                Stroke("max", 1.3, bounded=False),
            ),
        )
        for at, n in enumerate(callers)
    ]
    return rungs(levels, kinds=FIGURES, title="t", description="d", y_title="y")


@pytest.mark.parametrize("count", [1, 3, 8, 11, 16])
def test_no_word_stands_on_another_or_on_a_mark(count: int) -> None:
    svg = _many([2**n for n in range(count)])
    words = _words(svg)
    assert sum(said.startswith("limit") for said, _ in words) >= count * 0.5
    boxes = [place.box(said) for said, place in words]
    for at, box in enumerate(boxes):
        assert not any(box.meets(other) for other in boxes[:at]), words[at]
    for x, y in re.findall(r"M([\d.]+) ([\d.]+)m0-4l4 4", svg):  # the diamonds of p95
        assert not any(b.left < float(x) < b.right and b.top < float(y) < b.bottom for b in boxes)


def test_names_of_eight_levels_stand_in_two_rows_where_they_would_touch() -> None:
    def rows(svg: str) -> set[str]:
        named = [e for e in ET.fromstring(svg).iter() if (e.text or "").startswith("warm_c")]
        return {element.attrib["y"] for element in named}

    assert len(rows(_many([1, 4, 8]))) == 1
    assert len(rows(_many([2**n for n in range(11)]))) == 2


def test_a_picture_has_one_unit_that_of_its_largest() -> None:
    svg = _rungs(Stroke("p50", 0.082, 0.08, 0.09), Stroke("p95", 0.118, 0.1, 0.2), Stroke("max", 1.4, bounded=False))
    spans = [said for said in _texts(svg) if re.fullmatch(r"[\d.]+ (s|ms|µs)", said)]
    assert {"0.082 s", "0.118 s", "1.4 s"} <= set(spans) and {said.split()[1] for said in spans} == {"s"}
    small = _ridges(Ridge("gaps", "n 60", {-54: 40, -53: 20}, {}, (("p50", 0.002), ("p95", 0.0024))))
    spans = [word for said in _texts(small) for word in re.findall(r"[\d.]+ (s|ms|µs)\b", said)]
    assert spans and set(spans) == {"ms"}


def test_a_level_of_no_time_ends_at_0_s() -> None:
    assert "0 s" in _texts(_panels(Point(0, 0.1, "ok"), x_end=0.0))
