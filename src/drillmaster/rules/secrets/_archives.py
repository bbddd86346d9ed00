"""What is packed, unpacked within bounds; what cannot be unpacked is said, and is never taken for read.

1. A container is known by its first bytes, never by its name; a zip also by the directory at its end, behind whatever.
2. Each way of packing is undone a piece at a time, and stops at the bytes that are left of the file's budget: a bomb costs the
   budget, and is told as what it is.
3. What is locked, broken, cut, of a method unknown here or too large is unread. What came out before that is looked at as well.
"""

import io
import zlib
from collections.abc import Iterator

__all__ = ["Budget", "Unread", "container", "members"]

_BLOCK = 1 << 16
_PACKED = (
    (b"\x1f\x8b\x08", "gzip"),
    (b"PK\x03\x04", "zip"),
    (b"PK\x05\x06", "zip"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"7z\xbc\xaf\x27\x1c", "7z"),
    (b"Rar!\x1a\x07", "rar"),
    (b"\x04\x22\x4d\x18", "lz4"),
    (b"\x1f\x9d", "compress"),
    (b"\x1f\xa0", "compress"),
    (b"LZIP", "lzip"),
    (b"MSCF", "cab"),
    (b"\xed\xab\xee\xdb", "rpm"),
    (b"%PDF-", "pdf"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "ole"),
    (b"PACK\x00\x00\x00", "git pack"),
    (b"age-encryption.org/", "age"),
    (b"Salted__", "openssl"),
    (b"-----BEGIN PGP MESSAGE", "pgp"),
    (b"-----BEGIN AGE ENCRYPTED", "age"),
    (b"$ANSIBLE_VAULT", "ansible vault"),
)
_READ = frozenset({"gzip", "zip", "bzip2", "xz", "lzma", "zlib", "zstd", "tar"})


class Unread(Exception):
    """What could not be read, and why, in words for people; `reason` is a closed set of words."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Budget:
    """Bytes and members that one file may still become."""

    def __init__(self, max_bytes: int, max_members: int = 10_000) -> None:
        self.left_bytes = max_bytes
        self.left_members = max_members

    def take(self, count: int) -> None:
        self.left_bytes -= count
        if self.left_bytes < 0:
            raise Unread("it unpacks to more than may be read")

    def member(self) -> None:
        self.left_members -= 1
        if self.left_members < 0:
            raise Unread("it has more members than may be read")


def container(data: bytes) -> str | None:
    """Name what data is packed in; None: it is not packed, as far as its first bytes say."""
    for magic, name in _PACKED:
        if data.startswith(magic):
            return name
    if data[257:262] == b"ustar":
        return "tar"
    if data[:3] == b"\x5d\x00\x00" and len(data) > 13:
        return "lzma"
    if len(data) > 2 and data[0] == 0x78 and data[1] in (0x01, 0x5E, 0x9C, 0xDA) and (data[0] << 8 | data[1]) % 31 == 0:
        try:
            zlib.decompressobj().decompress(data[:4096], 4096)
        except zlib.error:
            return None
        return "zlib"
    tail = data[-66_000:]
    if b"PK\x05\x06" in tail and b"PK\x01\x02" in data:
        return "zip"
    return None


def members(data: bytes, kind: str, budget: Budget) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of everything packed in data. Raises Unread."""
    if kind not in _READ:
        raise Unread(f"{kind} is not read here")
    match kind:
        case "zip":
            yield from _zip(data, budget)
        case "tar":
            yield from _tar(data, budget)
        case _:
            yield from _stream(data, kind, budget)


def _stream(data: bytes, kind: str, budget: Budget) -> Iterator[tuple[str, bytes]]:
    import lzma

    parts: list[bytes] = []
    trouble: Unread | None = None
    rest = data
    try:
        while rest:
            unpacker = _unpacker(kind)
            rest = _one_stream(unpacker, rest, parts, budget)
            if kind in ("zlib", "lzma", "zstd") or not rest.strip(b"\0"):
                break
    except Unread as unread:
        trouble = unread
    except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError, MemoryError):
        trouble = Unread(f"its {kind} is broken")
    if parts:
        yield "", b"".join(parts)
    if trouble is not None:
        raise trouble


def _one_stream(unpacker: "_Unpacker", data: bytes, parts: list[bytes], budget: Budget) -> bytes:
    """Unpack one stream; give what lies behind it."""
    at = 0
    while not unpacker.eof:
        piece = data[at : at + _BLOCK]
        at += len(piece)
        got = unpacker.more(piece, _BLOCK * 4)
        while True:
            if got:
                budget.take(len(got))
                parts.append(got)
            if unpacker.eof or not unpacker.pending:
                break
            got = unpacker.more(b"", _BLOCK * 4)
        if not piece and not unpacker.eof:
            raise Unread("it is cut short")
    return unpacker.unused + data[at:]


class _Unpacker:
    """One face for the unpackers of the standard library: at most so many bytes a step."""

    def __init__(self, inner: object, kind: str) -> None:
        self._inner = inner
        self._kind = kind
        self.pending = False

    @property
    def eof(self) -> bool:
        return bool(self._inner.eof)  # type: ignore[attr-defined]  # all of them have it

    @property
    def unused(self) -> bytes:
        return bytes(self._inner.unused_data)  # type: ignore[attr-defined]  # likewise

    def more(self, data: bytes, most: int) -> bytes:
        if self._kind in ("gzip", "zlib"):
            got: bytes = self._inner.decompress(self._tail + data, most)  # type: ignore[attr-defined]  # likewise
            self.pending = bool(self._tail)
            return got
        got = self._inner.decompress(data, most)  # type: ignore[attr-defined]  # likewise
        self.pending = not self.eof and not self._inner.needs_input  # type: ignore[attr-defined]  # likewise
        return got

    @property
    def _tail(self) -> bytes:
        return bytes(self._inner.unconsumed_tail)  # type: ignore[attr-defined]  # zlib keeps what it did not take


def _unpacker(kind: str) -> _Unpacker:
    match kind:
        case "gzip":
            return _Unpacker(zlib.decompressobj(wbits=31), kind)
        case "zlib":
            return _Unpacker(zlib.decompressobj(), kind)
        case "bzip2":
            import bz2

            return _Unpacker(bz2.BZ2Decompressor(), kind)
        case "zstd":
            return _Unpacker(_zstd(), kind)
    import lzma

    # A dictionary of gigabytes is asked for by a few bytes.
    return _Unpacker(lzma.LZMADecompressor(memlimit=256 << 20), kind)


def _zstd() -> object:
    try:
        from compression import zstd  # type: ignore[import-not-found]  # Python 3.14 has it
    except ImportError:
        raise Unread("zstd is read from Python 3.14 on") from None
    return zstd.ZstdDecompressor()


def _zip(data: bytes, budget: Budget) -> Iterator[tuple[str, bytes]]:
    import lzma
    import zipfile

    trouble: Unread | None = None
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            yield "", archive.comment
            for entry in archive.infolist():
                budget.member()
                yield "", entry.comment
                if entry.is_dir():
                    yield entry.filename, b""
                    continue
                if entry.flag_bits & 0x1:
                    yield entry.filename, b""
                    trouble = Unread("a member of the zip is locked")
                    continue
                parts: list[bytes] = []
                try:
                    # Of bytes that are here already: no file is opened.
                    inside = archive.open
                    with inside(entry) as member:
                        while piece := member.read(_BLOCK):
                            budget.take(len(piece))
                            parts.append(piece)
                except (
                    zipfile.BadZipFile,
                    NotImplementedError,
                    zlib.error,
                    lzma.LZMAError,
                    EOFError,
                    OSError,
                    ValueError,
                    RuntimeError,
                ):
                    trouble = Unread("a member of the zip is broken")
                yield entry.filename, b"".join(parts)
    except Unread:
        raise
    except Exception as error:
        raise Unread("its zip is broken") from error
    if trouble is not None:
        raise trouble


def _tar(data: bytes, budget: Budget) -> Iterator[tuple[str, bytes]]:
    import tarfile

    seen = False
    try:
        with tarfile.TarFile(fileobj=io.BytesIO(data), mode="r", errorlevel=0) as archive:
            for entry in archive:
                seen = True
                budget.member()
                inside = archive.extractfile(entry) if entry.isfile() else None
                content = b""
                if inside is not None:
                    # A sparse member claims gigabytes that are not in the file.
                    if entry.size > len(data):
                        raise Unread("a member of the tar is larger than the tar")
                    content = inside.read()
                    budget.take(len(content))
                yield entry.name + (f" -> {entry.linkname}" if entry.linkname else ""), content
    except Unread:
        raise
    except Exception as error:
        raise Unread("its tar is broken") from error
    if not seen:
        raise Unread("its tar is broken")
