"""What people read of retries: the card's line, the page's tables and picture."""

import re
import xml.etree.ElementTree as ET
from typing import Any

import msgspec

from drillmaster.charts import Series, steps
from drillmaster.reports import form
from drillmaster.reports._retries import card_text, page
from drillmaster.reports._view import RunView
from drillmaster.retries import Accounting, account
from drillmaster.verdict import AtLeast
from tests.reports import cases
from tests.retries.test_accounting import GOOD, PATIENT, attempt, scene
from tests.scene import PRIMARY, S, Scene


def busy(**over: Any) -> Accounting:
    """Two layers under a rate limit, some of whose waits are cut short; a broken answer that is paid for twice."""
    paper = scene(PATIENT)
    for n in range(20, 79):
        for call in range(2):
            for count in range(3):
                asks = {"status": 429, "asked_s": 0.5, "asked_by": "ms"} if n % 2 else {}
                attempt(paper, n, call * 1.5 + count * 0.4, retry_count=count, **asks, **over)
    broken = {**GOOD, "window": "w1", "end": "cut", "terminal": False, "intact": False}
    attempt(paper, 19, 0, tokens_estimated=50, **broken)
    attempt(paper, 19, 1, retry_count=1, tokens=80, **{**GOOD, "window": "w1"})
    made = account(paper.run())
    assert made is not None
    return made


def with_retries(books: Accounting) -> tuple[Any, RunView]:
    verdict, view = cases.frozen("pass")
    return verdict, msgspec.structs.replace(view, retries=books)


def test_the_card_says_it_under_run_and_keeps_its_length() -> None:
    verdict, view = with_retries(busy())
    card = form("card").render(verdict, view)
    lines = card.splitlines()
    assert len(lines) <= 45
    at = next(place for place, line in enumerate(lines) if line.startswith("- attempts: "))
    said = " ".join(line.strip() for line in lines[at : at + 3]).partition(" Verdict")[0]
    assert said.startswith(
        "- attempts: 5.93 a request in the fault, 6 at most (1 in the baseline); load 5.87 x, 1.4 x on return"
    )
    assert "237 by the SDK, 59 above it" in said
    assert "cut short" in said
    assert "80 tokens billed again" in said


def test_where_most_attempts_are_nobodys_the_card_counts_them_all_and_says_how_they_would_find_their_users() -> None:
    books = busy()
    fault = next(phase for phase in books.phases if phase.name == "fault")
    blind = msgspec.structs.replace(
        fault, attempts=3, unattributed=352, mean=AtLeast(0.05), most=AtLeast(1.0), most_cites=()
    )
    said = card_text(msgspec.structs.replace(books, phases=tuple(blind if p is fault else p for p in books.phases)))
    assert re.match(r"attempts: \d+ for 60 user requests in the fault; whose 352 of them were is not known", said)
    assert "traceparent" in said and "{nonce}" in said
    assert "0.05" not in said


def test_a_floor_of_the_most_is_not_told_as_a_bound() -> None:
    books = busy()
    some = tuple(msgspec.structs.replace(p, mean=AtLeast(5.9), most=AtLeast(6.0)) for p in books.phases)
    said = card_text(msgspec.structs.replace(books, phases=some))
    assert said.startswith("attempts: at least 5.9 a request in the fault, and one had at least 6 (at least 5.9 in the")


def test_a_quiet_drill_takes_no_line_of_the_card() -> None:
    quiet = account(Scene(lambda n, s, on: PRIMARY).run())
    assert quiet is not None
    assert card_text(quiet) == ""
    assert "- attempts:" not in form("card").render(*with_retries(quiet))


def test_the_page_has_a_row_for_what_there_is_and_none_for_what_there_is_not() -> None:
    said = page(busy(), bands=(), rules=())
    rows = dict(said["rows"])
    assert said["heads"] == ["baseline", "fault", "recovery"]
    assert rows["Sent again by the SDK"] == ["", "237", ""]
    assert rows["Sent again above the SDK"] == ["", "59", ""]
    assert rows["Requests in which both sent again"] == ["", "59; at worst 2 tries of up to 3, 6 in all", ""]
    assert rows["Tokens"] == ["", "80 and about 50", ""]
    assert "Sent again, layer untold" not in rows
    assert [row[0] for row in said["loads"]] == ["baseline", "fault", "return", "after it"]
    html = form("html").render(*with_retries(busy()))
    assert "What the endpoint got" in html and "Storm factor" in html
    assert len(html.encode()) < 200_000


def test_what_is_a_lower_bound_says_so() -> None:
    paper = scene()
    attempt(paper, 30, 0.3, trace=None)
    made = account(paper.run())
    assert made is not None
    rows = dict(page(made, bands=(), rules=())["rows"])
    assert rows["The most one had"] == ["1", "at least 0", "1"]
    assert rows["Attempts of nobody's"] == ["", "1", ""]


def test_what_nobody_s_attempts_hide_is_said_at_least() -> None:
    paper = scene(PATIENT)
    broken = {**GOOD, "window": "w1", "end": "cut", "terminal": False, "intact": False}
    for n in (30, 31):
        attempt(paper, n, 0, tokens=50, **broken)
        attempt(paper, n, 1, tokens=80, **GOOD)
    attempt(paper, 40, 0, trace=None, tokens=7, **broken)
    made = account(paper.run())
    assert made is not None
    text = card_text(made)
    assert "sent again: at least 2 above it" in text and "at least 160 tokens billed again" in text
    shown = page(made, bands=(), rules=())
    rows = dict(shown["rows"])
    assert rows["Tokens of attempts of nobody's"] == ["", "7", ""]
    assert rows["Tokens billed again"] == ["", "at least 160", ""]
    loads = {row[0]: row[4] for row in shown["loads"]}
    assert (loads["baseline"], loads["fault"]) == ("0", "at least 2")


def test_of_several_windows_each_has_its_columns() -> None:
    paper = Scene()
    paper.add("events/proxy.jsonl", paper.lift_ns + 10 * S, "fault_injected", window="w2", fault="503", params={})
    paper.add("events/proxy.jsonl", paper.lift_ns + 15 * S, "fault_lifted", window="w2", why="ordered")
    made = account(paper.run())
    assert made is not None
    assert page(made, bands=(), rules=())["heads"] == ["baseline", "fault w1", "recovery w1", "fault w2", "recovery w2"]


def test_a_view_from_before_there_was_an_accounting_has_no_section() -> None:
    verdict, view = cases.frozen("pass")
    html = form("html").render(verdict, msgspec.structs.replace(view, retries=None))
    assert "What the endpoint got" not in html


def test_the_picture_is_one_and_its_steps_stay_inside() -> None:
    svg = steps(
        [Series("a", "bad", (0.0, 3.0, 7.0, 0.0), filled=True), Series("b", "other", (1.0, 1.0, 1.0, 1.0))],
        bin_s=2.0,
        title="<b>",
        description="&",
        y_title="a second",
    )
    ET.fromstring(svg)
    heights = [float(y) for y in re.findall(r"V([0-9.]+)H", svg)]
    assert heights and all(44.0 <= y <= 170.0 for y in heights)
    assert min(heights) < 70.0  # the tallest step reaches near the top of its scale
    ET.fromstring(steps([], bin_s=1.0, title="", description="", y_title=""))
