"""The fault `syn-black-hole`, played by hand."""

from drillmaster.faults import make
from tests.faults.stage import Stage


def test_it_is_silent_and_says_that_a_probe_proves_it() -> None:
    fault = make("syn-black-hole")
    assert (fault.scope, fault.proof, fault.asks_upstream) == ("port", "probe", False)
    played = Stage().play(fault)
    assert (played.end, played.kinds()) == ("silent", ["Refuse"])
