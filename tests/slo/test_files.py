"""`drill-matrix.yaml` as people write it: read strictly, and what is wrong with it named by its pointer."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.errors import Problem
from drillmaster.gates._matrix_rows import Objective, compare, objective_of
from drillmaster.slo import gate_of, load_matrix
from drillmaster.verdict import Absent, AtLeast, AtMost, Exact, Measure
from tests.fridays.paper import MATRIX

YAML = """\
kind: drill-matrix
version: 1
service: escalation-concierge
source: launch-checklist
owner: Ada of support
review_by: 2199-01-01
rows:
  - id: mission-latency
    name: Mission latency
    measure: mission_latency
    objective: p95 < 2.5 s
    probe: {kind: load, in_flight: 200}
    window: all
    owner: Ada of support
    source: launch-checklist, 1
  - id: detector-time
    name: Detector time
    measure: detector_delay
    objective: < 60 s
    probe: {kind: chaos, flags: [refundError]}
    window: chaos
    alert: {rule: RefundErrors, least: sev2, severities: {page: sev1}}
    owner: Bo
    source: launch-checklist, 2
"""


def read(value: dict[str, Any]) -> str:
    """What is said of a matrix; "" where it is one."""
    try:
        load_matrix(json.dumps(value).encode(), place="m.json", fmt="json")
    except Problem as problem:
        return str(problem)
    return ""


def changed(at: int, **fields: Any) -> dict[str, Any]:
    matrix: dict[str, Any] = json.loads(json.dumps(MATRIX))
    for name, value in fields.items():
        if value is ...:
            matrix["rows"][at].pop(name, None)
        else:
            matrix["rows"][at][name] = value
    return matrix


def test_a_matrix_is_read_with_its_digest() -> None:
    matrix, digest = load_matrix(YAML.encode(), place="drill-matrix.yaml", fmt="yaml")
    assert [row.id for row in matrix.rows] == ["mission-latency", "detector-time"]
    assert matrix.rows[1].asks.text == "< 60 s"
    assert digest.startswith("sha256:")
    again, same = load_matrix(YAML.replace("# x", "").encode() + b"# a comment\n", place="x", fmt="yaml")
    assert (again, same) == (matrix, digest)
    assert gate_of(matrix).rows == matrix.rows


@pytest.mark.parametrize(
    ("at", "fields", "said"),
    [
        (0, {"objective": "p95 <= 2.5"}, "/rows/0/objective: found 'p95 <= 2.5', wanted one such as"),
        (0, {"objective": "< 2.5 s"}, "/rows/0/objective: found '< 2.5 s' for mission_latency, wanted a quantile"),
        (0, {"objective": "p94 < 2.5 s"}, "/rows/0/objective: found 'p94', wanted one of p50"),
        (0, {"objective": "p95 > 2.5 s"}, "/rows/0/objective: found '>' for a span of time"),
        (0, {"objective": "p95 < 0 s"}, "/rows/0/objective: found 0 s, wanted more than 0"),
        (0, {"objective": "p95 < 1e3 s"}, "/rows/0/objective"),
        (0, {"objective": "p95 < 99 %"}, "/rows/0/objective: found '<' for a share"),
        (0, {"objective": 2.5}, "/rows/0/objective: found 2.5, wanted text"),
        (0, {"objective": None}, "/rows/0/objective: found nothing (null)"),
        (0, {"objective": ...}, "/rows/0/objective: found nothing"),
        (2, {"objective": ">= 0 %"}, "/rows/2/objective"),
        (2, {"objective": "> 100 %"}, "/rows/2/objective"),
        (2, {"objective": ">= 101 %"}, "/rows/2/objective"),
        (2, {"objective": ">= 2 s"}, "/rows/2/objective"),
        (
            1,
            {"objective": "p95 < 60 s"},
            "/rows/1/objective: found 'p95 < 60 s' for detector_delay, wanted none of a quantile",
        ),
        (1, {"alert": ...}, "/rows/1/alert: found nothing for detector_delay"),
        (1, {"alert": {"rule": "x"}}, "/rows/1/alert/least: found nothing"),
        (1, {"alert": {"rule": "x", "least": "sev9"}}, "sev0 to sev5"),
        (1, {"window": "all"}, "/rows/1/window: found 'all' for detector_delay, wanted chaos"),
        (2, {"window": "recovery"}, "/rows/2/window: found 'recovery' for a row whose probe is chaos"),
        (2, {"window": "baseline"}, "/rows/2/window: found 'baseline' for a row whose probe is chaos"),
        (
            1,
            {"probe": {"kind": "load", "in_flight": 5}},
            "/rows/1/probe: found another kind for detector_delay, wanted chaos",
        ),
        (1, {"probe": {"kind": "chaos", "flags": []}}, "/rows/1/probe/flags"),
        (0, {"probe": {"kind": "load"}}, "/rows/0/probe/in_flight: found nothing"),
        (0, {"probe": {"kind": "load", "in_flight": True}}, "/rows/0/probe/in_flight"),
        (0, {"probe": "load"}, "/rows/0/probe"),
        (0, {"alert": {"rule": "x", "least": "sev2"}}, "/rows/0/alert: found one for mission_latency"),
        (0, {"tool": "refund"}, "/rows/0/tool"),
        (2, {"block_s": 5}, "/rows/2/block_s"),
        (0, {"id": "Mission latency"}, "/rows/0/id: found 'Mission latency', wanted lower-case"),
        (0, {"id": "tool-success"}, "/rows/2/id: found 'tool-success', which is the id of row 0 too"),
        (0, {"name": "a | b"}, "/rows/0/name"),
        (0, {"owner": ""}, "/rows/0/owner"),
        (0, {"source": "a\nb"}, "/rows/0/source"),
        (0, {"mesure": 1}, "/rows/0/mesure"),
        (0, {"measure": "latency"}, "/rows/0/measure: found text"),
        (0, {"window": "Chaos"}, "/rows/0/window"),
    ],
)
def test_what_is_wrong_with_a_row_is_named_by_its_pointer(at: int, fields: dict[str, Any], said: str) -> None:
    assert said in read(changed(at, **fields))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"rows": []}, "/rows"),
        ({"rows": None}, "/rows: found nothing (null)"),
        ({"kind": "policy"}, "wanted kind: drill-matrix"),
        ({"version": 2}, "/version"),
        ({"owner": None, "review_by": None}, "2 blanks: /owner, /review_by"),
        ({"max_age_s": 0}, "/max_age_s"),
        ({"limits": {}}, "/limits"),
    ],
)
def test_what_is_wrong_with_the_file_is_named_by_its_pointer(fields: dict[str, Any], said: str) -> None:
    assert said in read({**MATRIX, **fields})


@pytest.mark.parametrize(
    ("text", "limit"),
    [("p99.9 < 250 ms", 0.25), (">= 99.9 %", 0.999), (">= 99.99 %", 0.9999), ("<= 0.5 s", 0.5), ("> 0.1 %", 0.001)],
)
def test_a_limit_is_the_decimal_that_was_written(text: str, limit: float) -> None:
    assert objective_of(text).limit == limit


@pytest.mark.parametrize(
    ("text", "least"), [(">= 99 %", 299), (">= 95 %", 59), (">= 99.9 %", 2_995), (">= 100 %", 1), ("< 60 s", 1)]
)
def test_a_share_says_how_many_it_takes(text: str, least: int) -> None:
    """0.99 ** 298 is over 0.05 and 0.99 ** 299 is not; so with the others."""
    assert objective_of(text).least_n == least


# What an observed value says: (objective, measure) -> status. Equal is no less.
TABLE: list[tuple[str, Measure, str]] = [
    ("< 60 s", Exact(59.999), "pass"),
    ("< 60 s", Exact(60.0), "fail"),
    ("<= 60 s", Exact(60.0), "pass"),
    ("<= 60 s", Exact(60.001), "fail"),
    (">= 99 %", Exact(0.99), "pass"),
    ("> 99 %", Exact(0.99), "fail"),
    ("< 60 s", AtLeast(60.0), "fail"),
    ("<= 60 s", AtLeast(60.0), "refused"),
    ("<= 60 s", AtLeast(60.1), "fail"),
    ("< 60 s", AtLeast(10.0), "refused"),
    ("< 60 s", AtMost(59.0), "pass"),
    ("< 60 s", AtMost(60.0), "refused"),
    ("<= 60 s", AtMost(60.0), "pass"),
    (">= 99 %", AtMost(0.98), "fail"),
    (">= 99 %", AtMost(0.99), "refused"),
    (">= 99 %", AtLeast(0.99), "pass"),
    ("> 99 %", AtLeast(0.99), "refused"),
    ("< 60 s", Exact(float("nan")), "refused"),
    ("< 60 s", Exact(float("-inf")), "refused"),
    (">= 99 %", Exact(float("inf")), "refused"),
    ("< 60 s", AtLeast(float("nan")), "refused"),
    ("< 60 s", Absent("nobody looked"), "refused"),
]


@pytest.mark.parametrize(("text", "measure", "status"), TABLE)
def test_a_measure_is_held_against_an_objective(text: str, measure: Measure, status: str) -> None:
    assert compare(measure, objective_of(text)) == status


@given(st.floats(), st.sampled_from(["<", "<=", ">", ">="]))
def test_a_pass_implies_a_finite_number_within_its_limit(value: float, op: Any) -> None:
    objective = Objective(text="", op=op, limit=0.5, unit="s")
    if compare(Exact(value), objective) == "pass":
        assert abs(value) < float("inf")
        assert value < 0.5 or (value == 0.5 and op in ("<=", ">=")) or (value > 0.5 and op in (">", ">="))
