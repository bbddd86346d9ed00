"""What is no answer to a question in JSON, where nothing is known of the API that was asked."""

import re
from typing import Any

import msgspec

__all__ = ["is_no_answer"]


class _Said(msgspec.Struct, frozen=True):
    error: Any = None


_decode_said = msgspec.json.Decoder(_Said).decode
_PAGE = re.compile(rb"\s*(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html)\b", re.IGNORECASE | re.DOTALL).match
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_PAGES_END = re.compile(rb"</html>\s*\Z", re.IGNORECASE).search


def is_no_answer(content_type: bytes, tail: bytes, *, whole: bool) -> bool:
    """Whether that is a page for people, or says `error`, where JSON was asked for; `whole`: it is all of the body."""
    if content_type.startswith((b"text/html", b"application/xhtml")):
        return bool((whole and _PAGE(tail)) or _PAGES_END(tail))
    tail = tail.removeprefix(_BYTE_ORDER_MARK) if whole else tail
    if whole and _PAGE(tail):  # a portal's, under whatever name
        return True
    in_stream = content_type.startswith(b"text/event-stream")
    said = (tail.rpartition(b"data:")[2] if in_stream else tail).strip()
    if not (whole or in_stream) or not said.startswith(b"{"):
        return False
    try:
        return _decode_said(said).error is not None
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return False
