"""The fault `fin-before-headers`, played by hand."""

from drillmaster.faults import make
from tests.faults.stage import Stage


def test_it_reads_the_request_to_its_end_and_closes_in_order() -> None:
    played = Stage().play(make("fin-before-headers"), body=b"x" * 40_000)
    assert (played.end, played.kinds()) == ("fin", ["Read"] * 4 + ["Close"])
    assert (played.head, played.sent) == (None, b"")


def test_it_closes_too_when_the_request_broke_off() -> None:
    assert Stage().play(make("fin-before-headers"), broken=True).end == "fin"
