"""What all laws promise of the state that a store keeps for them."""

import pytest

from drillmaster.rules import AnyLaw, call_state, fence, later, lease, quota, retry_budget

_LAWS: list[AnyLaw] = [call_state.LAW, fence.LAW, later.LAW, lease.LAW, quota.LAW, retry_budget.LAW]


@pytest.mark.parametrize("law", _LAWS, ids=lambda law: law.name)
def test_what_a_newer_version_has_more_of_is_dropped_by_no_older_one(law: AnyLaw) -> None:
    kind = quota.Spending if law is quota.LAW else law.state
    assert kind.__struct_config__.forbid_unknown_fields
