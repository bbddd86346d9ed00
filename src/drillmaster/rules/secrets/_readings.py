"""Every way in which bytes may be read as text, so that none of them hides what another reader would see.

1. As they are: ASCII is the same in UTF-8, Latin-1 and most else.
2. UTF-16 and UTF-32, with a byte order mark or without, whole or as a run inside something else.
3. As a person sees it: fullwidth and styled letters in their plain form (NFKC), without what has no width, without the colours of
   a terminal, tag characters as the letters they smuggle.
4. With bad bytes and control characters left out, as a lenient reader does; only where the rest is text.
5. With escapes undone, also twice: JSON, percent, numeric character references.
6. Runs of base64 and of hex decoded, also where lines break them, as far as text or an archive comes out.
"""

import base64
import binascii
import contextlib
import re
import unicodedata
from collections.abc import Iterator

from drillmaster.rules.secrets._compiled import compiled

__all__ = ["decoded", "readings", "texty"]

_PRINTABLE = bytes(range(0x20, 0x7F)) + b"\t\n\r"
_ALNUM64 = bytes(
    0x41 if (chr(byte).isascii() and chr(byte).isalnum()) or byte in b"+/_-" else 0x20 for byte in range(256)
)
_PRINTED = bytes(0 if byte == 0 else 0x61 if byte in _PRINTABLE else 0x78 for byte in range(256))
_RUN = 20
"""Shortest run of base64 that is looked into: 15 bytes, shorter than which no key is."""
_SAMPLE = 1 << 16

_NO_WIDTH = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0100-\U000e01ef\U000e0001]"
)
_TAGS = {0xE0000 + code: chr(code) for code in range(0x20, 0x7F)}
_COLOURS = rb"(?:\x1b|\\u001b|\\x1b|\\033|\\e)\[[0-9;]{0,16}[A-Za-z]"
_UNICODE = rb"\\u00([0-7][0-9A-Fa-f])|\\u\{0{0,4}([0-7][0-9A-Fa-f])\}|\\x([0-7][0-9A-Fa-f])"
_PERCENT = rb"%([0-9A-Fa-f]{2})"
_REFERENCE = rb"&#(?:x([0-9A-Fa-f]{2,4})|([0-9]{2,4}));"
_WIDE = (
    ("utf-16", rb"(?:[\t\n\r\x20-\x7e]\x00){6,}+", 2, 0),
    ("utf-16", rb"(?:\x00[\t\n\r\x20-\x7e]){6,}+", 2, 1),
    ("utf-32", rb"(?:[\t\n\r\x20-\x7e]\x00\x00\x00){6,}+", 4, 0),
    ("utf-32", rb"(?:\x00\x00\x00[\t\n\r\x20-\x7e]){6,}+", 4, 3),
)
_MARKS = (
    (b"\xff\xfe\x00\x00", "utf-32-le"),
    (b"\x00\x00\xfe\xff", "utf-32-be"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)
_STRETCH = rb"[\t\n\r\x20-\x7e]{12,}+"
_HEX = rb"(?:[0-9A-Fa-f]{2}){12,}+\Z"


def texty(data: bytes) -> bool:
    """Whether bytes are text but for a few: at most one in ten is neither printable ASCII nor of a longer UTF-8 sequence."""
    sample = data[:_SAMPLE]
    if not sample:
        return True
    odd = len(sample.translate(None, _PRINTABLE))
    if odd * 10 <= len(sample):
        return True
    controls = sum(sample.count(byte) for byte in (*range(0x09), 0x0B, 0x0C, *range(0x0E, 0x20), 0x7F))
    if controls * 10 > len(sample):
        return False
    kept = sample.decode("utf-8", "ignore").encode()
    return (len(sample) - len(kept)) * 10 <= len(sample)


def readings(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield each reading of a text that differs from the bytes, with its name. The bytes themselves are read by the caller."""
    wide = next((name for mark, name in _MARKS if data.startswith(mark)), None)
    if wide is not None:
        text = data.decode(wide, "replace")
        yield wide, (_seen(text) or text).encode("utf-8", "replace")
    elif b"\0" in data:
        yield from _wide(data)
    plain = data
    if not data.isascii() and wide is None and texty(data):
        text = data.decode("utf-8", "surrogateescape")
        lenient = data.decode("utf-8", "ignore").encode()
        if len(lenient) != len(data):
            yield "bad bytes left out", lenient
        seen = _seen(text)
        if seen is not None:
            plain = seen.encode("utf-8", "ignore")
            yield "as it looks", plain
    elif wide is None and data.isascii() and len(data.translate(None, _PRINTABLE)) and texty(data):
        plain = (
            compiled(_COLOURS)
            .sub(b"", data)
            .translate(None, bytes((*range(0x09), 0x0B, 0x0C, *range(0x0E, 0x20), 0x7F)))
        )
        yield "control characters left out", plain
    yield from _unescaped(plain)


def _seen(text: str) -> str | None:
    """The text as it looks; None where that is what it is."""
    seen = (
        text.translate(_TAGS)
        if any(0xE0020 <= ord(char) < 0xE007F for char in re.findall("[\U000e0020-\U000e007e]", text)[:1])
        else text
    )
    seen = _NO_WIDTH.sub("", seen)
    if not unicodedata.is_normalized("NFKC", seen):
        seen = unicodedata.normalize("NFKC", seen)
    return None if seen == text else seen


def _wide(data: bytes) -> Iterator[tuple[str, bytes]]:
    """UTF-16 and UTF-32 without a mark: whole where the zeros are on one side, else each run of wide ASCII."""
    sample = data[:_SAMPLE]
    even, odd = sample[0::2].count(0), sample[1::2].count(0)
    half = max(1, len(sample) // 2)
    if max(even, odd) * 10 >= half * 3 and min(even, odd) * 10 < half * 6:
        name = "utf-16-le" if odd > even else "utf-16-be"
        text = data.decode(name, "replace")
        yield name, (_seen(text) or text).encode("utf-8", "replace")
    marked = data.translate(_PRINTED)
    for name, run, width, place in _WIDE:
        if (b"a\0" * 5 if width == 2 else b"a\0\0\0" * 5) not in marked:
            continue
        found = [match.group(0)[place::width] for match in compiled(run).finditer(data)]
        if found:
            yield name, b"\n".join(found)


def _unescaped(data: bytes) -> Iterator[tuple[str, bytes]]:
    before = data
    for _ in range(3):  # JSON in JSON in JSON
        after = before
        if b"\\" in after:
            for escape, char in ((b"\\n", b"\n"), (b"\\r", b"\r"), (b"\\t", b"\t"), (b'\\"', b'"'), (b"\\/", b"/")):
                after = after.replace(escape, char)
            if b"\\u" in after or b"\\x" in after:
                after = compiled(_COLOURS).sub(b"", after)
                after = compiled(_UNICODE).sub(lambda m: bytes((int(m[1] or m[2] or m[3], 16),)), after)
            after = after.replace(b"\\\\", b"\\")
        if after == before:
            break
        before = after
    if before is not data:
        yield "escapes undone", before
    for _ in range(2):
        after = before
        if compiled(_PERCENT).search(after) is not None:
            after = compiled(_PERCENT).sub(lambda m: bytes((int(m[1], 16),)), after)
        if b"&#" in after:
            after = compiled(_REFERENCE).sub(_character, after)
        if after == before:
            break
        before = after
        yield "percent decoded", after


def _character(match: re.Match[bytes]) -> bytes:
    code = int(match[1], 16) if match[1] else int(match[2])
    return bytes((code,)) if 0 < code < 0x7F else match[0]


def decoded(data: bytes) -> Iterator[tuple[str, int, bytes]]:
    """Yield what runs of base64 and hex hold, with the name of the code and the run's offset."""
    marked = data.translate(_ALNUM64)
    want = b"A" * _RUN
    at = marked.find(want)
    while at >= 0:
        end = marked.find(b" ", at + _RUN)
        end = len(marked) if end < 0 else end
        run = data[at:end]
        if len(run) >= 60:  # a line of more
            run, end = _wrapped(data, marked, run, end)
        yield from _of_run(run, at)
        at = marked.find(want, end)


def _wrapped(data: bytes, marked: bytes, run: bytes, end: int) -> tuple[bytes, int]:
    parts = [run]
    width = len(run)
    while data[end : end + 1] in (b"\n", b"\r"):
        begin = end + (2 if data[end : end + 2] == b"\r\n" else 1)
        stop = marked.find(b" ", begin)
        stop = len(marked) if stop < 0 else stop
        if stop - begin > width or stop == begin:
            break
        parts.append(data[begin:stop])
        end = stop
        if stop - begin < width:
            break
    return b"".join(parts), end


_BASE32 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"


def _of_run(run: bytes, at: int) -> Iterator[tuple[str, int, bytes]]:
    if len(run) % 2 == 0 and compiled(_HEX).match(run) is not None:
        plain = bytes.fromhex(run.decode())
        if compiled(_STRETCH).search(plain) is not None:
            yield "hex", at, plain
        return
    if len(run) >= 24 and run.isupper() and not run.strip(_BASE32):
        with contextlib.suppress(binascii.Error, ValueError):
            plain = base64.b32decode(run + b"=" * (-len(run) % 8))
            if compiled(_STRETCH).search(plain) is not None:
                yield "base32", at, plain
    if run.islower() or run.isupper() or run.isdigit():
        return  # a name, a constant, a number: no text of 15 bytes is written in letters of one case
    standard = run.translate(bytes.maketrans(b"-_", b"+/"))
    for shift in range(4):  # what is glued before it (`/`, a word) shifts it
        part = standard[shift:]
        part = part[: len(part) - len(part) % 4] if len(part) % 4 == 1 else part + b"=" * (-len(part) % 4)
        try:
            plain = base64.b64decode(part)
        except (binascii.Error, ValueError):
            continue
        if shift == 0 and _is_packed(plain):
            yield "base64", at, plain
            return
        if b"\0" in plain[:200] and any(compiled(wide).search(plain) for _, wide, _, _ in _WIDE[:2]):
            yield "base64", at + shift, plain
            return
        stretches = compiled(_STRETCH).findall(plain)
        if stretches:
            yield "base64", at + shift, b"\n".join(stretches)
            return


def _is_packed(data: bytes) -> bool:
    return (
        data.startswith((b"\x1f\x8b\x08", b"PK\x03\x04", b"BZh", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd"))
        or data[257:262] == b"ustar"
    )
