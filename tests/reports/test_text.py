import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.reports.text import check_line, colour_wanted, last_line, render, where
from drillmaster.verdict import Check, Cite, Finding, Verdict
from tests.reports import cases


def _check(status: str = "pass", **fields: object) -> Check:
    given_fields = {"id": "fallback", "role": "judgement", "title": "fallback within 60 s", **fields}
    return Check(status=status, **given_fields)  # type: ignore[arg-type]  # rows of a table


def _verdict(*checks: Check, status: str = "pass", **fields: object) -> Verdict:
    return Verdict(gate="eviction", status=status, checks=checks, **fields)  # type: ignore[arg-type]  # rows of a table


def test_no_check_at_all_is_said() -> None:
    lines = render(_verdict(status="refused"), colour=False).splitlines()
    assert "REFUSED nothing was looked at" in lines
    assert lines[-1] == "REFUSED eviction: 0 failed, 0 refused, 0 passed"


def test_stamps_are_in_the_first_and_the_last_line() -> None:
    lines = render(
        _verdict(_check(), stamps=("UNSEALED", "UNPROVEN"), subject="drill.jsonl"), colour=False
    ).splitlines()
    assert lines[0] == "eviction: drill.jsonl [UNSEALED, UNPROVEN]"
    assert lines[-1].endswith("[UNSEALED, UNPROVEN]")


def test_a_refused_check_is_followed_by_what_makes_it_go_away() -> None:
    check = _check("refused", why="not sealed", remedy="drillmaster seal runs/x", cites=(Cite("seal.json", 0),))
    lines = render(_verdict(check, status="refused"), colour=False).splitlines()
    assert "REFUSED fallback within 60 s: not sealed" in lines
    assert "mend fallback: drillmaster seal runs/x" in lines
    assert "see fallback: seal.json" in lines


def test_the_reason_stands_only_on_lines_that_did_not_pass() -> None:
    assert check_line(_check(why="found by trace")) == "PASS fallback within 60 s"
    assert check_line(_check("fail", why="it never came")) == "FAIL fallback within 60 s: it never came"
    assert check_line(_check("fail", why="within 60 s")) == "FAIL fallback within 60 s"  # the title says it already


def test_a_finding_has_its_cause_and_what_to_do() -> None:
    out = render(
        _verdict(_check(), findings=(Finding(id="no-fallback", cause="dead code", next="test it"),)), colour=False
    )
    assert "finding no-fallback: dead code\n  next: test it\n" in out


@given(
    st.lists(
        st.builds(
            Check,
            id=st.text(max_size=9),
            role=st.sampled_from(["admission", "judgement"]),
            status=st.sampled_from(["pass", "fail", "refused"]),
            title=st.text(max_size=40),
            why=st.text(max_size=40),
            remedy=st.text(max_size=40),
        ),
        max_size=9,
    )
)
def test_each_check_is_one_line_whatever_is_in_it(checks: list[Check]) -> None:
    lines = render(_verdict(*checks), colour=False).splitlines()
    assert [line for line in lines[1:-1] if line.startswith(("PASS ", "FAIL ", "REFUSED "))] == (
        [check_line(check) for check in checks] or ["REFUSED nothing was looked at"]
    )
    assert not any("\x1b" in line for line in lines)


@pytest.mark.parametrize(
    ("environ", "is_terminal", "wanted"),
    [
        ({}, False, False),  # a pipe
        ({}, True, True),
        ({"TERM": "dumb"}, True, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": ""}, True, True),  # empty counts as unset, as no-color.org says
        ({"FORCE_COLOR": "1"}, False, True),
        ({"FORCE_COLOR": "0"}, False, False),
        ({"FORCE_COLOR": "1", "TERM": "dumb"}, False, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, True, False),
    ],
)
def test_colour_is_for_terminals_and_for_who_asks(environ: dict[str, str], is_terminal: bool, wanted: bool) -> None:
    assert colour_wanted(environ, is_terminal=is_terminal) is wanted


def test_colour_touches_nothing_but_the_status_words() -> None:
    verdict = _verdict(_check("fail"), status="fail")
    plain, painted = render(verdict, colour=False), render(verdict, colour=True)
    assert painted != plain
    assert painted.replace("\x1b[1;31m", "").replace("\x1b[0m", "") == plain


@pytest.mark.parametrize(
    ("cites", "wanted"),
    [
        ((), ""),
        ((Cite("seal.json", 0),), "seal.json"),
        ((Cite("a", 1), Cite("a", 2), Cite("b", 3)), "a:1, :2, b:3"),
        (tuple(Cite("a", n) for n in range(1, 45)), "a:1, :2, :3 and 41 more"),
        ((Cite("a\n", 1),), "a\\x0a:1"),
    ],
)
def test_cited_lines_are_named_shortly(cites: tuple[Cite, ...], wanted: str) -> None:
    assert where(cites) == wanted


@pytest.mark.parametrize("name", cases.CASES)
def test_golden_cases(name: str) -> None:
    verdict, _ = cases.frozen(name)
    out = render(verdict, colour=False)
    assert out == (cases.GOLDEN / name / "gate.txt").read_text(encoding="utf-8")
    assert out.splitlines()[-1] == last_line(verdict)
