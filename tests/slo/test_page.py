"""The page of the matrix: what people read of it, and when it is stale."""

import json
import re
from typing import Any

import msgspec
import pytest

from drillmaster.slo import Result, is_stale, load_matrix, render
from drillmaster.slo.files import DrillMatrix
from tests.fridays.paper import MATRIX


def read(value: dict[str, Any] = MATRIX) -> tuple[DrillMatrix, str]:
    return load_matrix(json.dumps(value).encode(), place="m", fmt="json")


def results(*statuses: str, values: tuple[float | None, ...] = ()) -> list[Result]:
    return [
        Result(
            run=f"r{n}",
            ended_at=f"2026-12-{n + 1:02}T14:00:00Z",
            status=status,  # type: ignore[arg-type]
            value=values[n] if values else None,
        )
        for n, status in enumerate(statuses)
    ]


def line(page: str, begins: str) -> str:
    (found,) = [one for one in page.splitlines() if one.startswith(begins)]
    return found


def test_every_row_stands_there_for_executives_and_for_engineers() -> None:
    page = render(*read())
    executives, engineers = page.split("## For engineers")
    for row in MATRIX["rows"]:
        assert row["name"] in executives
        assert f"`{row['objective']}`" in executives
        assert f"`{row['id']}`" in engineers
    assert "No drill has been judged by this matrix yet." in page
    assert "`RefundErrors`, sev2 or worse" in engineers
    assert "Ada of support. To be reviewed by 2199-01-01." in page


def test_a_row_shows_its_last_result_and_its_trend() -> None:
    told = results("pass", "refused", "fail", values=(2.0, None, 3.0))
    page = render(*read(), {"mission-latency": told})
    assert line(page, "| Mission latency |") == (
        "| Mission latency | `p95 < 2.5 s` | **FAIL** at 3 s on 2026-12-03 | `prF`, worse than 2 s |"
    )
    assert "| Replay availability | `>= 100 %` | never judged |  |" in page
    assert "Not every promise held in the last drill (2026-12-03, `r2`): 1 fail, 4 not judged." in page


def test_a_rehearsal_is_never_shown_as_a_drill() -> None:
    stamped = [msgspec.structs.replace(results("pass")[0], stamps=("COMPRESSED 9x", "REHEARSAL"))]
    page = render(*read(), {row["id"]: stamped for row in MATRIX["rows"]})
    assert "Every promise held in the last drill (2026-12-01, `r0`, COMPRESSED 9x, REHEARSAL): 5 pass." in page
    assert "pass on 2026-12-01, COMPRESSED 9x, REHEARSAL |" in line(page, "| Tool success |")


def test_a_share_is_cut_and_not_rounded_and_more_is_better() -> None:
    told = results("fail", "fail", values=(0.99, 0.99999))
    page = render(*read(), {"tool-success": told})
    assert "**FAIL** at 99.999 % on 2026-12-02 | `FF`, better than 99 %" in page


def test_every_promise_that_held_is_said_to_have_held() -> None:
    page = render(*read(), {row["id"]: results("pass") for row in MATRIX["rows"]})
    assert "Every promise held in the last drill (2026-12-01, `r0`): 5 pass." in page


def test_a_page_is_stale_by_its_matrix_and_by_a_hand_and_by_nothing_else() -> None:
    matrix, digest = read()
    page = render(matrix, digest)
    assert is_stale(page, digest) == ""
    assert is_stale(render(matrix, digest, {"replay": results("pass")}), digest) == ""
    other = read({**MATRIX, "owner": "Bo"})[1]
    assert is_stale(page, other) == "the matrix has changed since it was rendered"
    assert is_stale(page.replace("2.5 s", "25 s", 1), digest) == "it was edited by hand"
    assert is_stale("# Drill matrix\n", digest).startswith("it was not made by")


@pytest.mark.parametrize("name", ["<b>x</b>", "[a](javascript:x)", "a `b` *c*", "&amp;"])
def test_nothing_in_a_name_is_markdown_or_html(name: str) -> None:
    matrix = json.loads(json.dumps(MATRIX))
    matrix["rows"][0]["name"] = name
    page = render(*read(matrix))
    cell = next(one for one in page.splitlines() if "`p95 < 2.5 s`" in one).split(" | ")[0]
    assert "<b>" not in cell
    assert not re.search(r"(?<!\\)[\[`*]", cell)
    assert page.count("\n| ") == 2 * 6
