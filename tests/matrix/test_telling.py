"""The table as people get it: on a terminal, and as a page."""

import re

import msgspec
import pytest

from drillmaster.matrix import LeftOut, Table
from drillmaster.matrix.page import render
from drillmaster.matrix.telling import grouped, headline, lines, summary
from drillmaster.reports.html import MAX_BYTES
from drillmaster.verdict import AtLeast
from tests.matrix.paper import DOWN, RESET, Paper

FELL = {"attempts": (DOWN,), "says": "small-model"}
BROKE = {"attempts": (RESET,), "status": 500, "answer": None, "raised": "APIConnectionError"}


def table(share: float | None = 0.1, cells: int = 1) -> Table:
    paper = Paper()
    for _ in range(cells):
        paper.begin("503")
        for _ in range(4):
            paper.request(**FELL)
        paper.end()
        paper.begin("reset")
        for _ in range(4):
            paper.request(**BROKE)
        paper.end(recovery=3)
    paper.begin("stall", stream=True)
    paper.end(matched=0, recovery=3)
    paper.not_run["w99"] = "the time was over"
    left = LeftOut(label="clean-end", dialect="openai_chat", stream=False, why="it strikes streamed answers alone")
    found = paper.table(share)
    return msgspec.structs.replace(found, not_run=(*found.not_run, left))


def text(found: Table, **how: int) -> str:
    return "\n".join(lines(found, colour=False, **how))


def test_each_cell_has_its_word_and_what_is_behind_it() -> None:
    said = text(table())
    assert "heard in the baseline: openai_chat whole (10); 10 of 10 users answered" in said
    assert re.search(r"w1  503 +openai_chat whole +survived by fallback +the fallback answered 4 of 4", said)
    assert "wire: 4 x status 503; fallback: 4 x small-model; first good answer after 0.05 s" in said
    assert re.search(r"w2  reset +openai_chat whole +never engaged +4 http_5xx, of 4", said)
    assert "escaped: 4 x APIConnectionError" in said
    assert "it strikes streamed answers alone:\n      clean-end (openai_chat whole)" in said
    assert said.endswith("FAIL reset failed more than 10 % of the users that met it")
    assert "3 cells run: 1 survived, 1 failed users, 1 settled nothing; 1 left out with a reason" in said


def test_colour_is_where_it_is_asked_for_and_nowhere_else() -> None:
    assert "\x1b[" not in text(table())
    assert "\x1b[32m" in "\n".join(lines(table(), colour=True))


def test_a_narrow_terminal_gets_lines_that_fit() -> None:
    behind = [line for line in lines(table(), colour=False, columns=80) if line.startswith("       ")]
    assert behind and max(map(len, behind)) <= 80
    assert " ".join(text(table(), columns=80).split()) == " ".join(text(table()).split())


@pytest.mark.parametrize("columns", [40, 60, 80])
def test_a_long_why_and_a_narrow_terminal_leave_no_line_past_the_edge_but_the_cells_own(columns: int) -> None:
    found = table()
    long = msgspec.structs.replace(
        found.results[1], why="put {nonce} into target.url, " * 8, label="a-fault-with-a-name"
    )
    said = text(msgspec.structs.replace(found, results=(long,)), columns=columns).splitlines()
    cells = [line for line in said if line.startswith("  w")]
    assert len(cells) == 1 and "{nonce}" not in cells[0]
    rows = said[said.index(cells[0]) + 1 : said.index("", said.index(cells[0]))]
    assert max(map(len, rows)) <= columns
    assert " ".join("\n".join(rows).split()).startswith(" ".join(long.why.split()))


def test_without_a_policy_nothing_is_judged() -> None:
    assert summary(table(None)) == ["measured; there is no policy, and nothing is judged"]


def test_what_should_have_been_run_comes_first_among_what_was_not() -> None:
    many = [LeftOut(label=f"f{n}", dialect=None, stream=None, why="it cannot") for n in range(3)]
    late = LeftOut(label="reset", dialect="openai_chat", stream=True, why="the time was over", should=True)
    assert [why for why, _ in grouped([*many, late])] == ["the time was over", "it cannot"]
    assert grouped([late]) == [("the time was over", ["reset (openai_chat streamed)"])]


def test_what_was_left_out_for_one_reason_names_its_way_of_asking_once() -> None:
    entry = LeftOut(label="reset", dialect="openai_chat", stream=True, why="it cannot")
    many = [msgspec.structs.replace(entry, label=label) for label in ("reset", "503", "hang")]
    other = msgspec.structs.replace(entry, dialect="anthropic")
    assert grouped([*many, other]) == [
        ("it cannot", ["reset, 503, hang (openai_chat streamed)", "reset (anthropic streamed)"])
    ]


def test_attempts_that_found_no_user_are_no_number_and_there_is_a_cure() -> None:
    found = table()
    blind = msgspec.structs.replace(found.results[0], attempts_each=AtLeast(0.03), most_attempts=AtLeast(1.0))
    said = text(msgspec.structs.replace(found, results=(blind, *found.results[1:])))
    assert "attempts a request: not known, most of them found no user" in said
    assert "note: in 1 cell most attempts found no user" in said
    assert "0.03" not in said
    assert "note:" not in text(found)


@pytest.mark.parametrize("share", [0.1, None])
def test_the_page_holds_all_of_it_and_loads_nothing(share: float | None) -> None:
    found = table(share)
    page = render(found)
    assert "<script" not in page and "http://" not in page and "https://" not in page
    assert "default-src 'none'" in page and "prefers-color-scheme:dark" in page and "@media print" in page
    for result in found.results:
        assert f'href="#{result.cell}"' in page and f'id="{result.cell}"' in page
        assert all(f"{cite.file}:{cite.line}" in page for cite in result.cites)
    assert headline(found) in page
    assert "What this does not prove" in page
    assert ("Fail" if share else "Measured") in page.partition("</title>")[0]


def test_a_page_that_lies_elsewhere_leads_to_the_run_folder() -> None:
    assert 'href="runs/20261129T153000Z-1a2b/events/proxy.jsonl"' in render(
        table(), beside="runs/20261129T153000Z-1a2b/"
    )


def test_what_others_wrote_is_text_and_no_markup() -> None:
    found = table()
    hostile = msgspec.structs.replace(found, service="<script>alert(1)</script>\x1b[31m")
    page = render(hostile)
    assert "<script>" not in page and "&lt;script&gt;" in page and "\x1b" not in page
    assert "\x1b" not in text(hostile)


def test_the_largest_matrix_is_a_page_under_its_bound() -> None:
    found = table()
    result = found.results[1]
    many = tuple(
        msgspec.structs.replace(result, cell=f"w{n}", label=f"fault-of-a-long-name-{n // 2}", stream=bool(n % 2))
        for n in range(400)
    )
    page = render(msgspec.structs.replace(found, results=many))
    assert len(page.encode()) <= MAX_BYTES
