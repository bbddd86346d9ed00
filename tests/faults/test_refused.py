"""The fault `refused`, played by hand."""

from drillmaster.faults import make
from tests.faults.stage import Stage


def test_it_refuses_and_says_that_a_probe_proves_it() -> None:
    fault = make("refused")
    assert (fault.scope, fault.proof, fault.asks_upstream) == ("port", "probe", False)
    played = Stage().play(fault)
    assert (played.end, played.kinds()) == ("refused", ["Refuse"])
