"""The law of secrets in files: what of a file's bytes opens something, belongs to a person, or names a live environment.

1. Bytes are looked at, not text: no file is passed over because a byte in it is bad. Every way in which they may be read is tried
   (`_readings`): encodings, what cannot be seen, escapes, base64, hex.
2. What is packed is unpacked (`_archives`), and what comes out is looked at again, names too, down to `MAX_DEPTH`.
3. What could not be looked at whole is said in `Looked.unread`, and is for the reader the same as a secret. So is what looks like
   noise: it may be locked.
4. A secret never leaves: a `Hit` has its kind, where it stands, and a fingerprint, and that only where the value is too long to be
   guessed from it.
5. Time grows with size alone (`_shapes`), and no file unpacks to more than its budget. Readings and codes need none: none is
   longer than what is read.

The law in `drillmaster.screen` takes secrets out of what we write ourselves, and may take too much; this one accuses a file, and
may not. No list of shapes is complete.
"""

import zlib
from typing import Literal

import msgspec

from drillmaster.rules.secrets._archives import Budget, Unread, container, members
from drillmaster.rules.secrets._personal import find_live, find_personal
from drillmaster.rules.secrets._readings import decoded, readings, texty
from drillmaster.rules.secrets._shapes import entropy_bits, find
from drillmaster.screen import key_hash

__all__ = ["MAX_DEPTH", "Group", "Hit", "Looked", "look", "look_at_name", "media"]

Group = Literal["secret", "personal", "live"]
MAX_DEPTH = 5
"""How often something may be packed or encoded inside something else."""
MAX_HITS = 50
"""Hits that are kept of one file; all are counted."""
NOISE_RATIO = 0.985
"""How little zlib may save on bytes that are packed or locked already; text halves, a program loses a tenth at least."""
_NOISE_BYTES = 512
"""Fewer bytes are too few to tell."""
_HEAD_BYTES = 4_096
"""Of what is packed, where a stream has its own name and comment."""
_GUESSABLE = 20
"""A shorter value could be found by trying, from its digest."""
_NAMED = frozenset(
    {"password", "connection-password", "email", "payment-card", "basic-option", "basic-credentials", "cookie"}
)

_MEDIA = (
    (b"\x89PNG\r\n\x1a\n", "image"),
    (b"\xff\xd8\xff", "image"),
    (b"GIF87a", "image"),
    (b"GIF89a", "image"),
    (b"\x00\x00\x01\x00", "image"),
    (b"ID3", "audio"),
    (b"OggS", "audio"),
    (b"fLaC", "audio"),
    (b"wOF2", "font"),
    (b"wOFF", "font"),
    (b"\x00\x01\x00\x00\x00", "font"),
    (b"OTTO\x00", "font"),
    (b"\x1aE\xdf\xa3", "video"),
)

_PROGRAMS = (b"\x7fELF", b"MZ", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe", b"\0asm")


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """One finding. `offset` is of the reading that `via` names from the outside in, `()`: of the file's own bytes."""

    group: Group
    kind: str
    offset: int
    via: tuple[str, ...] = ()
    fingerprint: str = ""
    """First 16 hex digits of the value's SHA-256; "" where the value is short enough to be guessed from it."""


class Looked(msgspec.Struct, frozen=True, kw_only=True):
    """What looking at one file came to."""

    hits: tuple[Hit, ...] = ()
    counts: dict[str, int] = {}
    """Hits by group, also those that are not kept."""
    unread: tuple[str, ...] = ()
    """Why something of it could not be looked at; each once."""
    media: str = ""
    """Picture, sound, film or font: what it shows is not read. "" else."""
    names: tuple[str, ...] = ()
    """Members of archives in it, at most 1,000."""


def media(data: bytes) -> str:
    """Name the kind of picture, sound, film or font; "" where it is none."""
    for magic, kind in _MEDIA:
        if data.startswith(magic):
            return kind
    if data[:4] == b"RIFF" and data[8:12] in (b"WEBP", b"WAVE", b"AVI "):
        return {b"WEBP": "image", b"WAVE": "audio"}.get(data[8:12], "video")
    return "video" if data[4:8] == b"ftyp" else ""


def look(data: bytes, *, max_unpacked_bytes: int = 64 << 20) -> Looked:
    """Look at a file's bytes. `max_unpacked_bytes` bounds what may come out of it by unpacking, in all."""
    looking = _Looking(Budget(max_unpacked_bytes))
    looking.at(data, (), 0)
    return looking.said(media(data))


def look_at_name(name: str) -> Looked:
    """Look at a file's name, or a path: somebody may have named a file after a key."""
    looking = _Looking(Budget(1 << 20))
    looking.name(name, ())
    return looking.said("")


class _Looking:
    """One file under way."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._hits: list[Hit] = []
        self._known: set[tuple[str, bytes]] = set()
        self._counts: dict[str, int] = {}
        self._unread: dict[str, None] = {}
        self._names: list[str] = []

    def said(self, kind: str) -> Looked:
        return Looked(
            hits=tuple(self._hits),
            counts=self._counts,
            unread=tuple(self._unread),
            media=kind,
            names=tuple(self._names[:1000]),
        )

    def name(self, name: str, via: tuple[str, ...]) -> None:
        data = name.encode("utf-8", "surrogateescape")
        self._plain(data, (*via, "name"), of_name=True)
        for how, reading in readings(data):
            self._plain(reading, (*via, "name", how), of_name=True)
        for how, _, inner in decoded(data):
            self._plain(inner, (*via, "name", how), of_name=True)

    def at(self, data: bytes, via: tuple[str, ...], depth: int) -> None:
        kind = container(data)
        if kind is not None:
            self._packed(data, kind, via, depth)
            if kind == "zip" and not data.startswith(b"PK"):  # behind something else, which is looked at too
                self._bytes(data, via, depth)
            return
        self._bytes(data, via, depth)

    def _packed(self, data: bytes, kind: str, via: tuple[str, ...], depth: int) -> None:
        if depth >= MAX_DEPTH:
            self._unread["it is packed deeper than is looked"] = None
            return
        self._plain(data[:_HEAD_BYTES], via)
        try:
            for name, content in members(data, kind, self._budget):
                if name:
                    self._names.append(name)
                    self.name(name, (*via, kind))
                if content:
                    self.at(content, (*via, kind), depth + 1)
        except Unread as unread:
            self._unread[unread.reason] = None
            self._plain(data, via)  # what stands in it as it is: a comment of the archive, a name

    def _bytes(self, data: bytes, via: tuple[str, ...], depth: int) -> None:
        self._plain(data, via)
        self._inside(data, via, depth)
        for how, reading in readings(data):
            self._plain(reading, (*via, how))
            self._inside(reading, (*via, how), depth)
        if not media(data) and _noise(data):
            self._unread["it looks like noise: locked, or packed in a way unknown here"] = None

    def _inside(self, data: bytes, via: tuple[str, ...], depth: int) -> None:
        for how, _, inner in decoded(data):
            if depth >= MAX_DEPTH:
                self._unread["it is packed deeper than is looked"] = None
                return
            if container(inner) is not None:
                self.at(inner, (*via, how), depth + 1)
                continue
            self._plain(inner, (*via, how), encoded=True)
            for again, reading in readings(inner):
                self._plain(reading, (*via, how, again), encoded=True)
            self._inside(inner, (*via, how), depth + 1)

    def _plain(self, data: bytes, via: tuple[str, ...], *, of_name: bool = False, encoded: bool = False) -> None:
        for kind, at, value in find(data):
            self._add("secret", kind, at, value, via)
        for kind, at, value in find_personal(data):
            self._add("personal", kind, at, value, via)
        if not of_name and not encoded:
            for kind, at, value in find_live(data):
                self._add("live", kind, at, value, via)

    def _add(self, group: Group, kind: str, at: int, value: bytes, via: tuple[str, ...]) -> None:
        known = (kind, value)
        if known in self._known:
            return
        if len(self._known) < 10_000:
            self._known.add(known)
        self._counts[group] = self._counts.get(group, 0) + 1
        # Of each group some: a thousand addresses must not hide one key.
        if sum(hit.group == group for hit in self._hits) >= MAX_HITS:
            return
        hidden = group != "secret" or kind in _NAMED or len(value) < _GUESSABLE or entropy_bits(value) < 3
        self._hits.append(
            Hit(group=group, kind=kind, offset=at, via=via, fingerprint="" if hidden else key_hash(value))
        )


def _noise(data: bytes) -> bool:
    """Whether some part of the bytes is as even as what is locked or packed."""
    if len(data) < _NOISE_BYTES or texty(data):
        return False
    step = max(4096, len(data) // 64)
    parts = [part for at in range(0, len(data), step) if len(part := data[at : at + 4096]) >= _NOISE_BYTES]
    noisy = sum(len(zlib.compress(part, 1)) >= NOISE_RATIO * len(part) for part in parts)
    # A program has tables in it that are as even; one that is mostly so unpacks itself.
    return noisy * 2 > len(parts) if data.startswith(_PROGRAMS) else noisy > 0
