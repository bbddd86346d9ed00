"""Friday drills kept on disk: files of the first format are judged the same by every release.

`python -m tests.gates.test_matrix_golden` writes the texts anew, and with `runs` the folders too; read the difference before you
keep it.
"""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from drillmaster.clock import parse_rfc3339
from drillmaster.intake.friday import judge_friday
from drillmaster.reports import form
from drillmaster.verdict import Verdict
from tests.fridays.paper import MATRIX, Paper

GOLDEN = Path(__file__).parents[1] / "golden" / "matrix"
NOW_NS = parse_rfc3339("2026-12-05T00:00:00Z") or 0
CASES = sorted(one.name for one in GOLDEN.iterdir() if one.is_dir()) if GOLDEN.is_dir() else []


def verdict_of(name: str) -> Verdict:
    return judge_friday(GOLDEN / name, GOLDEN / name / "policy.yaml", now_ns=NOW_NS)


def text_of(name: str) -> str:
    return form("text").render(verdict_of(name), colour=False)


def test_each_status_has_a_case() -> None:
    assert {name.partition("-")[0] for name in CASES} == {"pass", "fail", "refused"}


@pytest.mark.parametrize("name", CASES)
def test_a_kept_drill_gets_the_verdict_that_was_kept_with_it(name: str) -> None:
    assert verdict_of(name).status == name.partition("-")[0]
    assert text_of(name) == (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")


def _small() -> dict[str, Any]:
    matrix: dict[str, Any] = json.loads(json.dumps(MATRIX))
    matrix["rows"][0]["probe"]["in_flight"] = matrix["rows"][2]["probe"]["in_flight"] = 2
    matrix["rows"][2]["objective"] = ">= 95 %"
    return matrix


def _make() -> None:
    """Three drills of two users: one that holds, one whose alert was open before and whose transcript is torn, one held by one."""
    shutil.rmtree(GOLDEN, ignore_errors=True)
    Paper(GOLDEN / "pass", matrix=_small(), users=2, each_s=1.0).write()
    broken = Paper(GOLDEN / "fail-alert-open-before", matrix=_small(), users=2, each_s=1.0)
    broken.files["events/detectors.jsonl"] = broken.files["events/detectors.jsonl"][:1]
    for at_s in (20.0, 50.0, 80.0):
        broken.alert(at_s, starts_s=19.0)
    del broken.files["transcripts/w1.ndjson"][9]
    broken.write()
    Paper(GOLDEN / "refused-load-not-held", matrix=_small(), users=1, each_s=0.5).write()


if __name__ == "__main__":
    if sys.argv[1:] == ["runs"]:
        _make()
    for case in sorted(one.name for one in GOLDEN.iterdir() if one.is_dir()):
        (GOLDEN / f"{case}.txt").write_text(text_of(case), encoding="utf-8")
