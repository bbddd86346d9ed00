"""The fault `cut-answer`, played by hand."""

import pytest

from tests.faults.streamlab import PATHS, play


@pytest.mark.parametrize(
    ("dialect", "length", "content_filter"),
    [
        ("openai_chat", b'"finish_reason":"length"', b'"finish_reason":"content_filter"'),
        ("openai_responses", b'"reason":"max_output_tokens"', b'"reason":"content_filter"'),
        ("anthropic", b'"stop_reason":"max_tokens"', b'"stop_reason":"refusal"'),
        ("gemini", b'"finishReason":"MAX_TOKENS"', b'"finishReason":"SAFETY"'),
        ("ollama", b'"done_reason":"length"', b'"done_reason":"stop"'),
    ],
)
@pytest.mark.parametrize("stream", [b"true", b"false"])
def test_the_reason_is_the_apis_own_word(dialect: str, length: bytes, content_filter: bytes, stream: bytes) -> None:
    asked = b'{"model":"m","stream":%b}' % stream
    assert length in play("cut-answer", [], dialect=dialect, asked=asked, path=PATHS[dialect]).body
    assert content_filter in play("cut-answer", [], dialect=dialect, asked=asked, reason="content_filter").body


def test_a_call_of_a_tool_passes() -> None:
    played = play("cut-answer", [], dialect="mcp", asked=b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}')
    assert played.end == "passed" and not played.met
