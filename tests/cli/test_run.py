"""`drillmaster run`, as far as it needs no socket: what it says in the end."""

from drillmaster.cli.run import _unpassed
from tests.reports import cases


def test_for_programs_why_a_verdict_is_no_pass_is_said_with_it() -> None:
    verdict, _ = cases.frozen("fail")
    said = _unpassed(verdict)
    assert said.startswith("FAIL fallback within ")
    assert said.count("FAIL ") == sum(check.status == "fail" for check in verdict.checks)
    assert "PASS" not in said


def test_of_a_pass_there_is_nothing_to_say() -> None:
    assert _unpassed(cases.frozen("pass")[0]) == ""
