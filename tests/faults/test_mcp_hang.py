"""The fault `mcp-hang`, played by hand."""

from tests.faults.streamlab import play

CALL = b'{"jsonrpc":"2.0","id":7,"method":"tools/call"}'


def test_the_call_is_read_and_never_answered() -> None:
    played = play("mcp-hang", [], dialect="mcp", path="/mcp", asked=CALL)
    assert (played.end, played.waits, played.body, played.asked) == ("stuck", [None], b"", False)


def test_after_a_lift_it_goes_on_to_the_server() -> None:
    played = play("mcp-hang", [], dialect="mcp", path="/mcp", asked=CALL, lift_at=2)
    assert (played.end, played.status) == ("passed", None)
