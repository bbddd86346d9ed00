"""The forms in which a code host reads a verdict: SARIF, workflow commands, a Markdown card."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster import reports
from drillmaster.reports.markdown import MOST_BYTES
from drillmaster.verdict import Check, Cite, Exact, Status, Verdict

NASTY = "a|b `c` <script>@ops\n::error::x\r%0A ##[error]y \x1b[31m \u202e ]]>"


def check(id: str, status: Status = "pass", **more: object) -> Check:
    return Check(id=id, role="judgement", status=status, title=f"about {id}", **more)  # type: ignore[arg-type]


def verdict(*checks: Check, status: Status = "fail", **more: object) -> Verdict:
    return Verdict(gate="canary", status=status, checks=checks, now="2026-11-30T08:00:00Z", version="0.1.0", **more)  # type: ignore[arg-type]


FAILED = verdict(
    check("p95", "fail", observed=Exact(312, 8200), limit=250, unit="ms", cites=(Cite("metrics/é #1.json", 3),)),
    check("errors"),
    check("fresh", "refused", why="10 days old", remedy="collect again"),
    check("p95", "fail", cites=(Cite("/etc/../passwd", 0), Cite("", 0))),
)


def test_sarif_names_each_rule_once_and_each_place_as_uploads_want_it() -> None:
    told = json.loads(reports.form("sarif").render(FAILED))
    (run,) = told["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert rules == ["p95", "errors", "fresh"]
    places = [r["locations"][0]["physicalLocation"] for r in run["results"]]
    assert [p["artifactLocation"]["uri"] for p in places] == [
        "metrics/%C3%A9%20%231.json",
        "drillmaster/canary",
        "etc/passwd",
        "drillmaster/canary",
    ]
    assert all(p["region"]["startLine"] >= 1 for p in places)
    assert [rules[r["ruleIndex"]] for r in run["results"]] == [r["ruleId"] for r in run["results"]]
    assert len({r["partialFingerprints"]["drillmaster/v1"] for r in run["results"]}) == 4
    assert run["automationDetails"]["id"] == "drillmaster/canary/"
    assert run["invocations"][0] == {
        "executionSuccessful": True,
        "exitCode": 1,
        "properties": {"stamps": [], "counts": {}, "status": "fail"},
    }


def test_a_refused_verdict_is_no_successful_execution() -> None:
    told = json.loads(reports.form("sarif").render(verdict(check("fresh", "refused"), status="refused")))
    assert told["runs"][0]["invocations"][0]["executionSuccessful"] is False
    assert [r["level"] for r in told["runs"][0]["results"]] == ["error"]


def test_github_says_the_verdict_first_and_never_neutral() -> None:
    said = reports.form("github").render(FAILED).splitlines()
    assert said[0] == "::error title=drillmaster canary%3A fail::FAIL canary: 2 failed, 1 refused, 1 passed"
    assert said[1].startswith("::error file=metrics/é #1.json,line=3,title=canary p95 fail::about p95. observed 312 ms")
    assert said[2] == "::error title=canary fresh refused::about fresh. 10 days old. To mend it: collect again"
    passed = reports.form("github").render(verdict(check("errors"), status="pass"))
    assert passed.startswith("::notice ") and passed.count("\n") == 1


def test_github_shows_ten_and_each_check_before_any_twice() -> None:
    """The host shows ten errors a step and drops the rest: places of one check must not hide another."""
    many = tuple(Cite("events/missions.jsonl", n) for n in range(1, 9))
    told = verdict(*(check(name, "fail", cites=many) for name in ("a", "b", "c")), status="fail")
    said = reports.form("github").render(told).splitlines()
    assert [line.partition("title=")[2].split()[1] for line in said[1:4]] == ["a", "b", "c"]
    assert len(said) == 10
    crowd = verdict(*(check(f"c{n}", "fail", cites=many) for n in range(30)), status="fail")
    said = reports.form("github").render(crowd).splitlines()
    assert len(said) == 10
    assert said[-1] == "::error title=canary::22 more checks did not pass"


@pytest.mark.parametrize("tag", ["github", "markdown", "sarif", "junit"])
def test_text_from_evidence_gives_no_command_and_no_markup(tag: str) -> None:
    nasty = verdict(check("p95", "fail", why=NASTY, remedy=NASTY, cites=(Cite(NASTY, 2),)), subject=NASTY)
    text = reports.form(tag).render(nasty)
    assert "\x1b" not in text and "\r" not in text and "\u202e" not in text
    if tag == "github":
        assert all(line.startswith("::error ") for line in text.splitlines())
        assert "##[" not in text and text.count("\n") == 2
    if tag == "markdown":
        assert "<script" not in text.replace("\\<script", "") and "@ops" not in text


def test_a_card_begins_with_the_verdict_and_its_reasons() -> None:
    lines = reports.form("markdown").render(FAILED).splitlines()
    assert lines[0] == "<!-- drillmaster canary -->"
    assert lines[1] == "**FAIL** `canary`: `p95`, `fresh`, `p95`"
    rows = [line for line in lines if line.startswith("| ") and "check" not in line]
    assert [row.split("|")[1].strip() for row in rows] == ["**FAIL**", "**FAIL**", "**REFUSED**", "pass"]
    assert "- `fresh`: collect again" in lines


def test_a_card_that_is_too_long_says_what_it_leaves_out() -> None:
    many = verdict(*(check(f"c{n}", "fail", why="x" * 390) for n in range(4_000)))
    card = reports.form("markdown").render(many)
    assert len(card.encode()) <= MOST_BYTES
    assert re.search(r"\d+ more checks do not fit here", card)


@given(st.text(max_size=60), st.text(max_size=60))
def test_any_text_gives_one_line_a_command_and_one_row_a_check(title: str, file: str) -> None:
    one = Check(id="x", role="judgement", status="fail", title=title, cites=(Cite(file, 1),))
    assert reports.form("github").render(verdict(one)).count("\n") == 2
    card = reports.form("markdown").render(verdict(one))
    assert sum(line.startswith("| **FAIL**") for line in card.splitlines()) == 1
    json.loads(reports.form("sarif").render(verdict(one)))


@pytest.mark.parametrize("tag", ["text", "json", "junit", "sarif", "github", "markdown"])
def test_a_name_that_is_no_unicode_can_be_told_in_every_form(tag: str) -> None:
    odd = "contracts/caf\udce9 \ud83d.json"
    told = verdict(
        check(odd, "fail", why=odd, remedy=odd, cites=(Cite(odd, 1),)), subject=odd, stamps=(odd,), counts={odd: 1}
    )
    clean = reports.screened(told)
    more = {"colour": False} if tag == "text" else {}
    assert reports.form(tag).render(clean, **more).encode()
    assert clean.checks[0].cites[0].file == "contracts/caf\\udce9 \\ud83d.json"
    assert reports.screened(FAILED) is FAILED
