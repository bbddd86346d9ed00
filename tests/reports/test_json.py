import json as plain_json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.errors import Problem
from drillmaster.reports.json import parse, render
from drillmaster.verdict import AtLeast, Check, Exact, Verdict, conclude
from tests.reports import cases


def _one(observed: Exact | AtLeast | None = None, limit: float | None = None) -> Verdict:
    check = Check(id="fallback", role="judgement", status="pass", title="t", observed=observed, limit=limit)
    return Verdict(gate="eviction", status="pass", checks=(check,), counts={"b": 2, "a": 1})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_is_not_finite_refuses_the_document_and_says_where(value: float) -> None:
    for verdict, pointer in ((_one(Exact(value)), "/checks/0/observed/value"), (_one(limit=value), "/checks/0/limit")):
        with pytest.raises(Problem) as raised:
            render(verdict)
        assert pointer in raised.value.place


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda d: d.pop("kind"), "kind"),
        (lambda d: d.update(schema_version=2), "schema_version 2"),
        (lambda d: d.update(status="fail"), "status fail"),  # not what its checks add up to
        (lambda d: d.update(exit=1), "exit 1"),
        (lambda d: d.update(exit=None), "exit None"),
        (lambda d: d.update(surprise=1), "surprise"),
        (lambda d: d["checks"][0].update(surprise=1), "surprise"),
        (lambda d: d["checks"][0].update(status="maybe"), "maybe"),
        (lambda d: d["checks"][0].update(observed={"type": "about", "value": 1}), "about"),
        (lambda d: d.pop("checks"), ""),
    ],
)
def test_a_document_that_is_none_is_refused_with_the_command_that_makes_one(change: object, found: str) -> None:
    document = plain_json.loads(render(_one(Exact(1.5))))
    change(document)  # type: ignore[operator]  # rows of a table
    with pytest.raises(Problem) as raised:
        parse(plain_json.dumps(document).encode(), place="verdict.json")
    assert raised.value.place.startswith("verdict.json")
    assert found in str(raised.value)
    assert "drillmaster gate DRILL RUN" in raised.value.remedy


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"null", b'{"kind":"verdict"', b'{"kind":"verdict","kind":"verdict"}', b"\xff\xfe"]
)
def test_bytes_that_are_no_document_are_refused(data: bytes) -> None:
    with pytest.raises(Problem):
        parse(data, place="verdict.json")


def test_the_envelope_comes_first_and_every_field_is_there() -> None:
    document = plain_json.loads(render(_one()))
    assert list(document)[:5] == ["kind", "schema_version", "exit", "gate", "status"]
    assert set(document) == {"kind", "schema_version", "exit", *Verdict.__struct_fields__}
    assert list(document["counts"]) == ["a", "b"]


def test_the_kind_of_a_measure_is_said() -> None:
    document = plain_json.loads(render(_one(AtLeast(900.0))))
    assert document["checks"][0]["observed"] == {"type": "at_least", "value": 900.0, "n": None}


checks = st.builds(
    Check,
    id=st.text(st.characters(codec="utf-8"), max_size=9),
    role=st.sampled_from(["admission", "judgement"]),
    status=st.sampled_from(["pass", "fail", "refused"]),
    title=st.text(st.characters(codec="utf-8"), max_size=20),
    observed=st.none() | st.builds(Exact, st.floats(-1e9, 1e9), st.none() | st.integers(0, 10**6)),
    limit=st.none() | st.floats(-1e9, 1e9) | st.text(st.characters(codec="utf-8"), max_size=9),
)


@given(st.lists(checks, max_size=6))
def test_what_is_written_is_read_back_the_same(given_checks: list[Check]) -> None:
    verdict = Verdict(gate="eviction", status=conclude(given_checks), checks=tuple(given_checks))
    written = render(verdict)
    assert parse(written.encode(), place="x") == verdict
    assert render(parse(written.encode(), place="x")) == written


@pytest.mark.parametrize("name", cases.CASES)
def test_golden_cases_are_read_and_written_to_the_byte(name: str) -> None:
    data = (cases.GOLDEN / name / "verdict.json").read_bytes()
    assert render(parse(data, place=name)).encode() == data
    assert msgspec.json.decode(data)["exit"] in (0, 1, 2)
