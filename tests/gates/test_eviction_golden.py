"""Runs kept on disk: files of the first format are judged the same by every release.

`python -m tests.gates.test_eviction_golden` writes the texts anew; read the difference before you keep it.
"""

from pathlib import Path

import pytest

from drillmaster.cli.gate.eviction import _flag_limits
from drillmaster.clock import parse_rfc3339
from drillmaster.intake.run import open_bare, open_run
from drillmaster.intake.verdicts import judge_bare, judge_eviction
from drillmaster.reports import form
from drillmaster.verdict import Verdict

GOLDEN = Path(__file__).parents[1] / "golden" / "eviction"
NOW_NS = parse_rfc3339("2026-12-01T00:00:00Z") or 0
CASES = sorted(p.name for p in GOLDEN.iterdir() if not p.name.endswith(".txt"))


def test_each_status_has_a_sealed_and_a_bare_case() -> None:
    for status in ("pass", "fail", "refused"):
        assert any(n.startswith(status) and n.endswith(".jsonl") for n in CASES)
        assert any(n.startswith(status) and not n.endswith(".jsonl") for n in CASES)


def verdict_of(name: str) -> Verdict:
    path = GOLDEN / name
    if path.is_dir():
        return judge_eviction(open_run(path), path / "policy.yaml", now_ns=NOW_NS)
    return judge_bare(open_bare(path), _flag_limits(0.01, 60), None, now_ns=NOW_NS)


def text_of(name: str) -> str:
    return form("text").render(verdict_of(name), colour=False).replace(str(GOLDEN), "GOLDEN")


@pytest.mark.parametrize("name", CASES)
def test_a_kept_run_gets_the_verdict_that_was_kept_with_it(name: str) -> None:
    assert verdict_of(name).status == name.partition(".")[0].partition("-")[0]
    assert text_of(name) == (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")


if __name__ == "__main__":
    for case in CASES:
        (GOLDEN / f"{case}.txt").write_text(text_of(case), encoding="utf-8")
