"""The fault `empty-object`, played by hand."""

import pytest

from tests.faults.streamlab import play


@pytest.mark.parametrize("asked", [b'{"stream":true}', b"{}"])
def test_it_is_an_object_that_holds_nothing(asked: bytes) -> None:
    played = play("empty-object", [], asked=asked)
    assert (played.status, played.body, played.headers["content-type"]) == (200, b"{}", "application/json")
