"""The law of entity tags: a tag is a hash of the bytes that are sent, and a condition is an equality of tags.

1. A strong tag is a digest over the bytes as they go out, after whatever coding they are in: a gzip of a page is another
   representation, and has another tag (RFC 9110, 8.8.1 and 8.8.3). A key, a version or a caption is no tag: it can stay the same
   while the bytes change.
2. A tag is `"` and characters without `"` and spaces and `"`, weak with `W/` before it, in capitals (8.8.3).
3. `If-Match` compares strongly: both are strong and the same. `If-None-Match` compares weakly: `W/` is set aside (8.8.3.2).
4. `If-Match` comes first; where it is not met: 412. Then `If-None-Match`: where it is not met, 304 for GET and HEAD, and 412 for
   anything else (13.2.2). `*` stands for any representation that there is.
5. A field that cannot be read is a list of tags that nobody gave. Reading is then answered whole, which is never wrong; a
   method that changes something is refused.
"""

import base64
import hashlib
import re
from typing import Literal

__all__ = ["Answer", "conditional", "strong_etag", "tags", "weak_match"]

Answer = Literal["send", "not-modified", "precondition-failed"]
"""Go on; 304 without a body; 412, and nothing is done."""
MAX_FIELD = 8192
_TAG = r'(?:W/)?"[\x21\x23-\x7e\x80-\xff]*"'
_LIST = re.compile(rf"[ \t]*(?:{_TAG}[ \t]*)?(?:,[ \t]*(?:{_TAG}[ \t]*)?)*")
_ONE = re.compile(_TAG)


def strong_etag(body: bytes | bytearray | memoryview) -> str:
    """Make the strong tag of a body: SHA-256 over its bytes. Raises TypeError for text, of which nobody knows the bytes."""
    if not isinstance(body, bytes | bytearray | memoryview):
        raise TypeError("an entity tag is of bytes: encode the text first, as it will be sent")
    return '"' + base64.urlsafe_b64encode(hashlib.sha256(body).digest()).decode().rstrip("=") + '"'


def tags(field: object) -> tuple[str, ...] | None:
    """Read a list of tags as `If-None-Match` has it; `("*",)` for any. None: it cannot be read."""
    if type(field) is not str or len(field) > MAX_FIELD:
        return None
    if field.strip(" \t") == "*":
        return ("*",)
    found = tuple(_ONE.findall(field))
    return found if found and _LIST.fullmatch(field) else None


def weak_match(one: str, other: str) -> bool:
    """Whether two tags are the same but for weakness."""
    return one.removeprefix("W/") == other.removeprefix("W/")


def conditional(
    method: str, etag: str | None, *, if_match: str | None = None, if_none_match: str | None = None
) -> Answer:
    """Answer a conditional request. `etag` is of what there is now, None where there is nothing.

    Fields that occur more than once are joined by a comma first. The dates (`If-Modified-Since`) are not looked at: they give way
    to tags wherever there are some.
    """
    reads = method in ("GET", "HEAD")
    if if_match is not None:
        wanted = tags(if_match)
        met = wanted is not None and etag is not None and (wanted == ("*",) or (etag[:2] != "W/" and etag in wanted))
        if not met:
            return "precondition-failed"
    if if_none_match is not None:
        given = tags(if_none_match)
        if given is None:
            return "send" if reads else "precondition-failed"
        if etag is not None and (given == ("*",) or any(weak_match(etag, one) for one in given)):
            return "not-modified" if reads else "precondition-failed"
    return "send"
