"""What gates say about themselves: every check is explained, shown red and green, and answers a line of its contract."""

import pytest

from drillmaster.gates import Case, cases, names
from drillmaster.gates._asks import Asks, Line, asks, shared
from drillmaster.gates._selftest import selftest
from drillmaster.judge import judge

HAS_CONTRACT = sorted(set(names()) - {"eviction", "interview"})


@pytest.mark.parametrize("name", names())
def test_every_check_of_a_gate_goes_red_and_green(name: str) -> None:
    assert [row for row in selftest(name) if not row.holds] == []


@pytest.mark.parametrize("name", names())
def test_every_check_that_a_gate_yields_is_explained(name: str) -> None:
    book = asks(name)
    yielded = {check.id for case in cases(name) for check in case.gate.checks(case.evidence)}
    assert {one for one in yielded if book.of(one) is None} == set()
    assert {one.id for one in book.check if not any(one.fits(check) for check in yielded)} == set()


@pytest.mark.parametrize("name", [*names(), "shared"])
def test_an_explanation_is_whole_and_its_id_stands_once(name: str) -> None:
    book = shared() if name == "shared" else asks(name)
    ids = [one.id for one in book.check]
    assert len(ids) == len(set(ids))
    for one in book.check:
        assert all(text.strip() for text in (one.asks, one.because, one.mend)), one.id
        assert one.asks.endswith(".") and one.because.endswith("."), one.id


@pytest.mark.parametrize("name", HAS_CONTRACT)
def test_each_line_of_a_contract_is_answered_and_most_of_them_by_checks(name: str) -> None:
    book = asks(name)
    known = {one.id for one in (*book.check, *shared().check)}
    assert {check for line in book.line for check in line.checks if check not in known} == set()
    checked = sum(bool(line.checks) for line in book.line)
    assert len(book.line) >= 15
    assert checked * 3 >= len(book.line) * 2, f"{checked} of {len(book.line)}"
    answered = {check for line in book.line for check in line.checks}
    assert {one.id for one in book.check} - answered == set(), "a check that answers no line of the contract"


def test_each_line_of_the_contract_that_all_share_is_answered_by_checks_that_some_gate_has() -> None:
    known = {check.id for book in (shared(), *map(asks, names())) for check in book.check}
    assert {check for line in shared().line for check in line.checks if check not in known} == set()
    assert sum(bool(line.checks) for line in shared().line) * 3 >= len(shared().line) * 2
    assert {one.id for one in shared().check} == {
        one for line in shared().line for one in line.checks if one in {check.id for check in shared().check}
    }


def test_a_line_without_an_answer_is_none() -> None:
    for wrong in ({}, {"question": "Who?"}, {"checks": ("a",), "question": "Who?", "why": "because"}):
        with pytest.raises(ValueError, match="wanted checks"):
            Line(section="rule", text="x", **wrong)  # type: ignore[arg-type]


def test_a_gate_that_stays_green_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = next(case.gate for case in cases("interview"))
    green = next(case for case in cases("interview") if case.status == "pass")
    lie = Case(check="complete", status="refused", gate=gate, evidence=green.evidence)
    monkeypatch.setattr("drillmaster.gates._selftest.cases", lambda name: iter([lie]))
    told = {row.check: row for row in selftest("interview")}
    assert not told["complete"].holds
    assert "wanted refused, got pass" in told["complete"].problems[0]
    assert all(not row.holds for row in told.values())


def test_a_case_that_crashes_is_no_red_case(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = next(case.gate for case in cases("interview"))
    crash = Case(check="complete", status="fail", gate=gate, evidence=None)
    monkeypatch.setattr("drillmaster.gates._selftest.cases", lambda name: iter([crash]))
    assert "AttributeError" in {row.check: row for row in selftest("interview")}["complete"].problems[0]


@pytest.mark.parametrize("name", names())
def test_a_red_case_never_gives_a_pass(name: str) -> None:
    for case in cases(name):
        if case.status != "pass":
            verdict = judge(
                case.gate,
                case.evidence,
                name=name,
                subject="x",
                pin=None,
                policy_digest="",
                evidence_digest="",
                evidence_end_ns=0,
                counts={},
                now_ns=0,
                version="0",
            )
            assert verdict.status != "pass", case.check
            assert case.gate.article_exit(verdict) != 0, case.check


def test_a_name_in_an_id_is_a_star() -> None:
    book = Asks(article="x", check=asks("interview").check)
    assert [one.id for one in (book.of("warm_c4.errors"), book.of("open_r0.5.ttft_p95")) if one] == ["*.errors", "*.*"]
    assert book.of("nothing") is None


@pytest.mark.parametrize(
    ("check", "whose"),
    [
        ("weakened.mock", {"oracle"}),
        ("warm_c8.p95", {"interview"}),
        ("open_r0.5.ttft_p95", {"interview"}),
        ("warm_c1.errors.429", {"interview"}),
        ("drain.drain", {"interview"}),
        ("*.*", {"interview"}),
        ("fallback", {"eviction"}),
        ("canary.nope", set()),
        ("a file.json", set()),
        ("nonsense.thing", set()),
    ],
)
def test_an_id_alone_says_which_gates_are_meant(check: str, whose: set[str]) -> None:
    assert {name for name in names() if asks(name).owning(check)} == whose
