"""The fault `rst-on-accept`, played by hand."""

from drillmaster.faults import make
from tests.faults.stage import Stage


def test_it_resets_a_connection_of_which_nothing_was_read() -> None:
    fault = make("rst-on-accept")
    assert (fault.scope, fault.proof) == ("connection", "connections")
    played = Stage().play(fault)
    assert (played.end, played.kinds()) == ("rst", ["Close"])
