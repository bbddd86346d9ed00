"""Whatever a verdict says no to, it says how to mend it: by the check itself, or by the gate's book."""

import pytest

from drillmaster.gates import cases, names
from drillmaster.intake.judging import _with_remedies
from drillmaster.judge import judge


@pytest.mark.parametrize("name", names())
def test_no_check_that_did_not_pass_is_without_a_remedy(name: str) -> None:
    bare = []
    for case in cases(name):
        verdict = judge(
            case.gate,
            case.evidence,
            name=name,
            subject="a subject",
            pin=None,
            policy_digest="",
            evidence_digest="",
            evidence_end_ns=0,
            counts={},
            now_ns=0,
            version="",
        )
        told = _with_remedies(verdict)
        assert [(one.id, one.status, one.why) for one in told.checks] == [
            (one.id, one.status, one.why) for one in verdict.checks
        ]
        assert all(one.remedy == old.remedy for one, old in zip(told.checks, verdict.checks, strict=True) if old.remedy)
        bare += [one.id for one in told.checks if one.status != "pass" and not one.remedy]
        assert not [one.id for one in told.checks if one.status == "pass" and one.remedy]
    assert bare == []
