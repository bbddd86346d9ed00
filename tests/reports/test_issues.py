import re

import msgspec
import pytest

from drillmaster.reports.card import render as card
from drillmaster.reports.issues import render
from drillmaster.verdict import Check, Cite, Finding
from tests.reports import cases

FAILING = cases.frozen("fail")


def test_without_a_failure_there_is_no_issue() -> None:
    assert render(*cases.frozen("pass")) == {}


def test_a_refused_run_has_no_issue_whatever_failed_in_it() -> None:
    verdict, view = FAILING
    unproven = Check(id="proof", role="admission", status="refused", title="fault proven: 0 user requests met it")
    refused = msgspec.structs.replace(verdict, status="refused", checks=(unproven, *verdict.checks))
    assert any(check.status == "fail" for check in refused.checks)
    assert render(refused, view) == {}
    said = card(refused, view)
    assert "one follow-up issue per FAIL line: none, a refused run judges nothing" in said
    assert "OPEN" not in said


def test_each_failure_has_its_file_with_what_was_seen_and_what_was_allowed() -> None:
    issues = render(*FAILING)
    assert list(issues) == ["20261130T080000Z-1a2b-fallback.md", "20261130T080000Z-1a2b-failed.md"]
    text = issues["20261130T080000Z-1a2b-failed.md"]
    for wanted in (
        "- Owner: OPEN",
        "- Observed: 100 % of 180",
        "- Limit: 1 %",
        "`events/traffic.jsonl:242`",
        "unit test",
    ):
        assert wanted in text
    assert "- Owner: Dana" in issues["20261130T080000Z-1a2b-fallback.md"]


def test_the_finding_that_cites_the_same_lines_is_the_one_that_is_told() -> None:
    verdict, view = FAILING
    cite = Cite("timeline.jsonl", 77)
    check = Check(id="c", role="judgement", status="fail", title="t", cites=(cite,))
    findings = (
        Finding(id="a", cause="mine", next="do this", cites=(cite,)),
        Finding(id="b", cause="other", next="elsewhere"),
    )
    (text,) = render(msgspec.structs.replace(verdict, checks=(check,), findings=findings), view).values()
    assert "do this" in text
    assert "elsewhere" not in text.partition("## What to do next")[2].partition("Then drill")[0]


@pytest.mark.parametrize("check_id", ["../../etc/cron.d/x", "a/b", "", "..", "fallback [w2]", "\x00", "x" * 300])
def test_a_file_name_stays_in_its_folder(check_id: str) -> None:
    verdict, view = FAILING
    check = Check(id=check_id, role="judgement", status="fail", title="t")
    (name,) = render(msgspec.structs.replace(verdict, checks=(check,)), view)
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,200}\.md", name)


def test_checks_whose_names_differ_only_in_what_a_file_name_cannot_hold_keep_their_own_files() -> None:
    verdict, view = FAILING
    checks = tuple(Check(id=name, role="judgement", status="fail", title="t") for name in ("a/b", "a b", "a-b"))
    assert len(render(msgspec.structs.replace(verdict, checks=checks), view)) == 3


@pytest.mark.parametrize("name", cases.CASES)
def test_golden_cases(name: str) -> None:
    folder = cases.GOLDEN / name / "issues"
    kept = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.md")} if folder.exists() else {}
    assert render(*cases.frozen(name)) == kept
