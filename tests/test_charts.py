import itertools
import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.charts import Band, Callout, Kind, Point, Rule, mark, scatter, span_text
from drillmaster.charts.drawing import SHAPES

KINDS = {"ok": Kind("answered", "good", "dot"), "bad": Kind("HTTP 5xx", "worst", "square")}


def _scatter(*points: Point, x_end: float = 100.0, **more: object) -> str:
    return scatter(
        points,
        kinds=KINDS,
        x_end=x_end,
        title="t",
        description="d",
        lane="no end",
        y_title="seconds",
        **more,  # type: ignore[arg-type]  # bands, rules and a callout
    )


def _places(svg: str, shape: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(rf"M([\d.]+) ([\d.]+){re.escape(shape)}", svg)]


def test_nothing_at_all_still_has_its_axes() -> None:
    svg = _scatter()
    ET.fromstring(svg)
    assert ">10 ms<" in svg and ">10 s<" in svg
    assert "no end" not in svg


def test_an_axis_reaches_no_further_than_what_it_shows_asks() -> None:
    svg = _scatter(Point(1.0, 1.3, "ok"), Point(2.0, 1.7, "ok"))
    assert ">100 ms<" in svg and ">10 s<" in svg
    assert ">100 s<" not in svg


@pytest.mark.parametrize("x_end", [0.0, -1.0, float("nan"), float("inf")])
def test_an_axis_without_a_length_does_not_break_the_picture(x_end: float) -> None:
    svg = _scatter(Point(1.0, 1.0, "ok"), x_end=x_end)
    assert "nan" not in svg and "inf" not in svg
    ET.fromstring(svg)


def test_what_has_no_value_is_in_its_own_lane_and_not_at_zero() -> None:
    svg = _scatter(Point(10.0, None, "bad"), Point(10.0, 100.0, "bad"))
    lane, on_scale = _places(svg, SHAPES["square"][0])
    assert lane[1] < on_scale[1]  # above the scale
    assert ">no end</text>" in svg


def test_ten_times_as_long_is_always_the_same_step_up() -> None:
    svg = _scatter(*(Point(1.0, y, "ok") for y in (0.01, 0.1, 1.0, 10.0)))
    heights = [y for _, y in _places(svg, "h0")]
    steps = [a - b for a, b in itertools.pairwise(heights)]
    assert steps == pytest.approx([steps[0]] * 3, abs=0.15)
    assert steps[0] > 0


def test_time_runs_from_the_left_edge_to_the_right_one() -> None:
    svg = _scatter(Point(0.0, 1.0, "ok"), Point(50.0, 1.0, "ok"), Point(100.0, 1.0, "ok"))
    left, middle, right = (x for x, _ in _places(svg, "h0"))
    assert (left, right) == (58.0, 936.0)
    assert middle == pytest.approx((left + right) / 2)


@given(
    st.lists(
        st.builds(Point, st.floats(0, 2000), st.none() | st.floats(0, 1e6), st.sampled_from(["ok", "bad"])), max_size=40
    ),
    st.text(max_size=20),
)
def test_every_point_is_inside_the_picture_and_every_text_is_text(points: list[Point], label: str) -> None:
    svg = _scatter(
        *points,
        x_end=1800.0,
        bands=(Band(label, 0, 600), Band(label, 600, 1500, strong=True)),
        rules=(Rule(600, label), Rule(1799, label)),
        callout=Callout(700, 1.0, label),
    )
    places = _places(svg, "h0") + _places(svg, SHAPES["square"][0])
    assert len(places) == len(points)
    assert all(58 <= x <= 936 and 0 < y <= 330 for x, y in places)
    assert set(re.findall(r"<(\w+)", svg)) <= {"svg", "title", "desc", "rect", "path", "text", "circle"}


def test_labels_cannot_add_elements() -> None:
    svg = _scatter(bands=(Band("<script>&\"'", 0, 100),), rules=(Rule(50, "</svg><b>"),))
    root = ET.fromstring(svg)
    assert {"<script>&\"'", "</svg><b>"} <= {text.text for text in root.iter("{http://www.w3.org/2000/svg}text")}


def test_the_same_values_give_the_same_bytes() -> None:
    points = tuple(Point(i / 3, i / 7 + 0.01, "ok") for i in range(50))
    assert _scatter(*points) == _scatter(*points)


def test_a_mark_for_a_legend_says_nothing_itself() -> None:
    svg = mark(KINDS["bad"])
    assert ET.fromstring(svg).get("aria-hidden") == "true"


def test_a_picture_that_was_copied_out_of_its_page_keeps_its_colours() -> None:
    for used in re.findall(
        r"var\(([^)]*)\)", _scatter(Point(1.0, 1.0, "ok"), Point(2.0, None, "bad"), rules=(Rule(5, "x"),))
    ):
        assert re.fullmatch(r"--[a-z-]+,#[0-9a-f]{3,6}", used)


@pytest.mark.parametrize(
    ("seconds", "wanted"), [(0, "0:00"), (59.99, "0:59"), (65, "1:05"), (1800, "30:00"), (3661, "1:01:01")]
)
def test_moments_read_as_minutes_and_seconds(seconds: float, wanted: str) -> None:
    assert span_text(seconds) == wanted
