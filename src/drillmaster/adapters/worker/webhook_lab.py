"""Whether production's key is where a lab is about to start. A key is known by the digest of its text, and by nothing else.

1. Looked at are the environment, that of the process that started this one, the files that the settings name, and what is below the
   folders that are named. A variable or file of a key's name counts whatever is in it.
2. A text is read as it is, by its lines and words, without its line ends, and behind the writings that hide nothing: base64,
   base32, hex, percent signs, escapes, UTF-16, gzip, one in the other. A key of the Standard Webhooks specification is known
   without its prefix too.
3. What is found is told by its name. A name that holds the key is not told either.
4. What is more than can be looked through counts as found.
"""

import binascii
import contextlib
import os
import re
import zlib
from base64 import b32decode, b64encode
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Literal

from drillmaster.adapters.worker.webhook_settings import Settings
from drillmaster.errors import Problem, one_line

__all__ = ["parent_environ", "production_keys_here"]

_MOST_FILES = 2_000
_MOST_LOOKED_BYTES = 16 << 20
_MOST_READ_BYTES = 128 << 20
"""Of one text and all that was behind it."""
_MOST_UNPACKED_BYTES = 1 << 20
_MOST_DEPTH = 4
_LEAST_CHARS = 16
_MOST_KEY_CHARS = 1_024

_Found = Literal["", "a key", "too much"]
_WORDS = tuple(
    re.compile(said)
    for said in (
        r"[^\s\x00]{16,}",
        r"[^\s\x00\"'`]{16,}",
        r"[^\s\x00\"'`<>()\[\]{},;&=:|]{16,}",
        r"[A-Za-z0-9_+/-]{16,}={0,6}",
        r"[A-Za-z0-9_.~-]{16,}",
        r"[A-Za-z0-9_]{16,}",
        r"[A-Za-z0-9+/_-]{16,}",
        r"[A-Za-z0-9]{16,}",
    )
)
_HEX = re.compile(r"(?:[0-9A-Fa-f]{2})+")
_BASE32 = re.compile(r"[A-Za-z2-7]+=*")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]+=*")
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})|\\x([0-9A-Fa-f]{2})|\\u00([0-9A-Fa-f]{2})")


def parent_environ() -> dict[str, str]:
    """Read what the process that started this one was started with; empty where that is not ours to read."""
    try:
        raw = Path(f"/proc/{os.getppid()}/environ").read_bytes()
    except OSError:
        return {}
    pairs = (line.partition("=") for line in raw.decode("utf-8", "surrogateescape").split("\0"))
    return {name: text for name, _, text in pairs if name}


def production_keys_here(
    settings: Settings,
    environ: Mapping[str, str],
    folder: Path,
    looked_in: tuple[Path, ...],
    *,
    parent: Mapping[str, str] | None = None,
) -> list[str]:
    """List where a production key is on this host, by names alone: variables, the files that are named, files in `looked_in`."""
    wanted = frozenset(settings.keys.sha256)
    found = _variables(settings, environ, wanted, "")
    found += _variables(settings, parent or {}, wanted, " of the process that started this one")
    found += [f"the file {one_line(file)}" for file in settings.keys.files if (folder / file).exists()]
    for path in _files(looked_in):
        name = one_line(str(path))
        if _holds(str(path).encode("utf-8", "surrogateescape"), wanted):
            found.append("a file whose name holds it")
            continue
        try:
            with path.open("rb") as opened:
                raw = opened.read(_MOST_LOOKED_BYTES + 1)
        except OSError as error:
            found.append(f"the file {name}, which cannot be read ({error.strerror})")
            continue
        held = "too much" if len(raw) > _MOST_LOOKED_BYTES else _holds(raw, wanted)
        if held:
            found.append(f"the file {name}{_beside(held)}")
    return found


def _variables(settings: Settings, environ: Mapping[str, str], wanted: frozenset[str], whose: str) -> list[str]:
    found = []
    for name, text in sorted(environ.items()):
        if name in settings.keys.env:
            held: _Found = "a key" if text else ""
        elif _holds(name.encode("utf-8", "surrogateescape"), wanted):
            found.append(f"a variable whose name holds it{whose}")
            continue
        else:
            held = _holds(text.encode("utf-8", "surrogateescape"), wanted)
        if held:
            found.append(f"the variable {one_line(name)}{whose}{_beside(held)}")
    return found


def _beside(held: _Found) -> str:
    return ", which is too large to be looked through" if held == "too much" else ""


def _files(folders: tuple[Path, ...]) -> Iterator[Path]:
    count = 0
    for folder in folders:
        for path in [folder] if folder.is_file() else sorted(folder.rglob("*")):
            if path.is_file():  # through a link too, as secrets are mounted
                count += 1
                if count > _MOST_FILES:
                    raise Problem(
                        one_line(str(folder)),
                        found=f"more than {_MOST_FILES} files",
                        wanted="folders that can be looked through",
                        remedy="name the one that holds the lab's configuration",
                    )
                yield path


def _holds(raw: bytes, wanted: frozenset[str]) -> _Found:
    if not wanted:
        return ""
    waiting, seen, room = [(raw, 0)], {raw}, _MOST_READ_BYTES
    while waiting:
        read, depth = waiting.pop()
        room -= len(read)
        if room < 0:
            return "too much"
        if _is_key(read, wanted):
            return "a key"
        for text in _texts(read):
            for word in _words(text):
                if _is_key(word.encode("utf-8", "surrogateescape"), wanted):
                    return "a key"
                if depth < _MOST_DEPTH:
                    for behind in _behind(word):
                        if behind not in seen:
                            seen.add(behind)
                            waiting.append((behind, depth + 1))
        unpacked = _unpacked(read) if depth < _MOST_DEPTH else b""
        if unpacked and unpacked not in seen:
            seen.add(unpacked)
            waiting.append((unpacked, depth + 1))
    return ""


def _is_key(raw: bytes, wanted: frozenset[str]) -> bool:
    """Whether a text is a key, with or without its prefix; or bytes are what a key says in base64."""
    if not _LEAST_CHARS <= len(raw) <= _MOST_KEY_CHARS:
        return False
    bare, coded = raw.removeprefix(b"whsec_").rstrip(b"="), b64encode(raw)
    ways = {raw, bare, coded.rstrip(b"="), coded, bare + b"=" * (-len(bare) % 4)}
    ways |= {b"whsec_" + way for way in ways}
    return any(sha256(way).hexdigest() in wanted for way in ways)


def _texts(raw: bytes) -> Iterator[str]:
    text = raw.decode("utf-8", "surrogateescape")
    yield text
    if b"\0" in raw:  # UTF-16 or UTF-32 of what is ASCII
        yield raw.replace(b"\0", b"").decode("utf-8", "surrogateescape")
    joined = re.sub(r"\\?[\r\n]+[ \t]*", "", text)
    if joined != text:
        yield joined
    plain = _ESCAPE.sub(lambda match: chr(int(match[1] or match[2] or match[3], 16)), text)
    if plain != text:
        yield plain


def _words(text: str) -> set[str]:
    words = {text, text.strip()}
    for line in text.splitlines():
        words |= {line, line.strip()}
        for mark in "=", ":":
            _, _, value = line.partition(mark)
            words.add(value.strip().strip("\"'"))
    for one in _WORDS:
        words.update(one.findall(text))
    return {word for word in words if len(word) >= _LEAST_CHARS}


def _behind(word: str) -> Iterator[bytes]:
    """Give what a word says in a writing that hides nothing."""
    if _HEX.fullmatch(word):
        yield bytes.fromhex(word)
    if _BASE32.fullmatch(word):
        bare = word.rstrip("=").upper()
        with contextlib.suppress(binascii.Error):
            yield b32decode(bare + "=" * (-len(bare) % 8))
    if _BASE64.fullmatch(word):
        bare = word.rstrip("=").replace("-", "+").replace("_", "/")
        if len(bare) % 4 != 1:
            yield binascii.a2b_base64(bare + "=" * (-len(bare) % 4))


def _unpacked(raw: bytes) -> bytes:
    if raw[:2] != b"\x1f\x8b" and raw[:1] != b"\x78":
        return b""
    try:
        return zlib.decompressobj(47).decompress(raw, _MOST_UNPACKED_BYTES)
    except zlib.error:
        return b""
