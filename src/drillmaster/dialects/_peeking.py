"""What a request asks for and what an answer cost, read from the ends of their bodies. No entry.

Nothing decodes a whole large body. A quote inside a string is escaped, so that text of a user's or a model's cannot be taken
for a field.
"""

import re

import msgspec

__all__ = ["EDGE_BYTES", "Peek", "offers_tools", "output_tokens", "peek_json", "spent_tokens"]

EDGE_BYTES = 4_096
"""How much of the end of an answer `finished` is shown, and of each end of a large request `peek_json`."""


class Peek(msgspec.Struct, frozen=True):
    """What a request asks for. None: its body does not say, or not where we looked."""

    model: str | None = None
    stream: bool | None = None


_MODEL = re.compile(rb'[{,]\s*"model"\s*:\s*"([^"\\]{1,128})"')
_STREAM = re.compile(rb'[{,]\s*"stream"\s*:\s*(true|false)')


_TOTAL = re.compile(rb'"total_tokens"\s*:\s*([0-9]{1,9})')
_GEMINI_TOTAL = re.compile(rb'"totalTokenCount"\s*:\s*([0-9]{1,9})')
_OLLAMA_INPUT = re.compile(rb'"prompt_eval_count"\s*:\s*([0-9]{1,9})')
_OLLAMA_OUTPUT = re.compile(rb'"eval_count"\s*:\s*([0-9]{1,9})')
_OUTPUT = re.compile(rb'"output_tokens"\s*:\s*([0-9]{1,9})')
_INPUT = re.compile(rb'"input_tokens"\s*:\s*([0-9]{1,9})')
_BYTES_A_TOKEN = 4


def spent_tokens(tail: bytes, up_bytes: int, down_bytes: int) -> tuple[int, bool]:
    """What one answer cost, and whether the API said all of it: by the `usage` at its end (`tail`), where it is said there.

    What it does not say is estimated from the bodies' bytes, high rather than low: a stream's frames are mostly wrapping.
    A quote inside a string is escaped, so that text of a model's cannot be taken for a field.
    """
    at = tail.rfind(b'"total_tokens"')
    if at >= 0 and (total := _TOTAL.match(tail, at)):
        return int(total[1]), True
    at = tail.rfind(b'"output_tokens"')
    if at >= 0 and (output := _OUTPUT.match(tail, at)):
        at = tail.rfind(b'"input_tokens"')
        given = _INPUT.match(tail, at) if at >= 0 else None
        return int(output[1]) + (int(given[1]) if given else up_bytes // _BYTES_A_TOKEN), given is not None
    at = tail.rfind(b'"totalTokenCount"')
    if at >= 0 and (total := _GEMINI_TOTAL.match(tail, at)):
        return int(total[1]), True
    at = tail.rfind(b'"eval_count"')
    if at >= 0 and (output := _OLLAMA_OUTPUT.match(tail, at)):
        # What was kept from the last request's prompt is not counted again, and then not said.
        given = _OLLAMA_INPUT.search(tail, max(0, at - 256))
        return int(output[1]) + (int(given[1]) if given else up_bytes // _BYTES_A_TOKEN), given is not None
    return (up_bytes + down_bytes) // _BYTES_A_TOKEN, False


_decode = msgspec.json.Decoder(Peek).decode


def peek_json(head: bytes, tail: bytes | None = None) -> Peek:
    """Find `model` and `stream` in a JSON request.

    `head` is the whole body, or, with a `tail`, its two ends (SDKs write `messages` first and the model behind them). A
    quote inside a string is escaped, so that prompt text cannot be taken for a field.
    """
    if tail is None:
        try:
            seen = _decode(head)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return Peek()
        return seen if seen.model is None or len(seen.model) <= 128 else Peek(seen.model[:128], seen.stream)
    found_model = _MODEL.search(head) or _MODEL.search(tail)
    found_stream = _STREAM.search(head) or _STREAM.search(tail)
    return Peek(
        found_model[1].decode("utf-8", "replace") if found_model else None,
        found_stream[1] == b"true" if found_stream else None,
    )


_COMPLETION = re.compile(rb'"(?:completion_tokens|output_tokens|candidatesTokenCount|eval_count)"\s*:\s*([0-9]{1,9})')


def output_tokens(tail: bytes) -> int | None:
    """How many tokens an answer says that it gave, by the `usage` at its end; None where it does not say."""
    found = _COMPLETION.findall(tail)
    return int(found[-1]) if found else None


class _Offer(msgspec.Struct, frozen=True):
    tools: list[msgspec.Raw] | None = None


_decode_offer = msgspec.json.Decoder(_Offer).decode


def offers_tools(body: bytes) -> bool | None:
    """Whether a JSON request, given whole, offers the model tools; None where it is none."""
    try:
        return bool(_decode_offer(body).tools)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
