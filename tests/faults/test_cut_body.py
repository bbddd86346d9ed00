"""The fault `cut-body`, played by hand."""

import pytest

from drillmaster.errors import Problem
from drillmaster.faults import make
from tests.faults.stage import Stage


@pytest.mark.parametrize("how", ["rst", "fin"])
def test_it_passes_so_many_bytes_and_ends_the_connection(how: str) -> None:
    played = Stage(upstream=b"x" * 100).play(make("cut-body", {"after_bytes": 7, "how": how}))
    assert (played.passed_bytes, played.end, played.kinds()) == (7, how, ["Pass", "Close"])


@pytest.mark.parametrize("after_bytes", [100, 101])
def test_an_answer_that_is_no_longer_passes_whole(after_bytes: int) -> None:
    played = Stage(upstream=b"x" * 100).play(make("cut-body", {"after_bytes": after_bytes}))
    assert (played.passed_bytes, played.end) == (100, "returned")


@pytest.mark.parametrize(
    "params, field",
    [
        ({}, "after_bytes"),
        ({"after_bytes": 0}, "after_bytes"),
        ({"after_bytes": -1}, "after_bytes"),
        ({"after_bytes": 1.5}, "after_bytes"),
        ({"after_bytes": True}, "after_bytes"),
        ({"after_bytes": 10**12}, "after_bytes"),
        ({"after_bytes": 1, "how": "half"}, "how"),
    ],
)
def test_nonsense_is_refused_by_the_name_of_its_field(params: dict[str, object], field: str) -> None:
    with pytest.raises(Problem, match=field):
        make("cut-body", params)
