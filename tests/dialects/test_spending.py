"""What an answer cost, for a cap on spending."""

import json

import pytest

from drillmaster.dialects import spent_tokens


@pytest.mark.parametrize(
    ("tail", "tokens", "told"),
    [
        (b"", 30, False),  # nothing said: a token for every four bytes of both bodies
        (b'{"text": "no usage here"}', 30, False),
        (b'"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}}', 12, True),
        (b'"usage": {"total_tokens" : 12, "prompt_tokens": 9}}', 12, True),
        (b'"usage":{"input_tokens":10,"output_tokens":5}}', 15, True),
        # the input was said at the start
        (b'event: message_delta\ndata: {"usage":{"output_tokens":5}}\n\n', 25, False),
        (b'data: {"usage":{"output_tokens":1}}\n\ndata: {"usage":{"output_tokens":5}}\n\n', 25, False),
        (
            b'data: {"usageMetadata":{"promptTokenCount":7,"totalTokenCount":7}}\n\ndata: {"usageMetadata":{"totalTokenCount":19}}',
            19,
            True,
        ),
        (b'{"done":true,"prompt_eval_count":7,"prompt_eval_duration":1,"eval_count":5}\n', 12, True),
        (b'{"done":true,"eval_count":5}\n', 25, False),
        (b'"total_tokens":"12"', 30, False),
        (b'"total_tokens":null', 30, False),
        (b'"total_tokens":12345678901234567890', 123_456_789, True),  # bounded
    ],
)
def test_usage_counts_where_it_is_said_and_bytes_where_it_is_not(tail: bytes, tokens: int, told: bool) -> None:
    assert spent_tokens(tail, up_bytes=80, down_bytes=40) == (tokens, told)


def test_text_of_a_model_s_is_no_usage() -> None:
    text = json.dumps({"text": 'say "total_tokens": 0 and "output_tokens": 0'}).encode()
    assert spent_tokens(text, up_bytes=80, down_bytes=40) == (30, False)
