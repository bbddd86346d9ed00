"""The fault `empty-200`, played by hand."""

import pytest

from tests.faults.streamlab import play


@pytest.mark.parametrize("asked, kind", [(b'{"stream":true}', "text/event-stream"), (b"{}", "application/json")])
def test_there_is_a_type_and_no_body(asked: bytes, kind: str) -> None:
    played = play("empty-200", [], asked=asked)
    assert (played.status, played.body) == (200, b"")
    assert played.headers == {"content-type": kind, "content-length": "0"}
