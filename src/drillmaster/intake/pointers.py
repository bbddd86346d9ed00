"""`MEMORY_POINTER`: what stands in a workspace instead of memory that was moved to a store.

1. Lines of `name=value`. A block says one file: `memory_uri=` (an absolute path or a URI of the store), `sha256=`, `bytes=`,
   `file=` (the name it had, beside the pointer). Blocks are apart by an empty line. The first line is the article's.
2. A line that means nothing, a name that stands twice in a block, a path that leads upwards, a password in the address: refused.
3. A pointer without a checksum, such as the article's own, is refused: nothing shows that what lies there is what was moved.
"""

import re

import msgspec

from drillmaster.errors import Problem

__all__ = ["POINTER_CAP_BYTES", "POINTER_NAME", "Block", "read_pointer", "write_pointer"]

POINTER_NAME = "MEMORY_POINTER"
POINTER_CAP_BYTES = 1 << 20
_NAMES = ("memory_uri", "sha256", "bytes", "file")
_REMEDY = "restore the pointer, or evict the file again: drillmaster workspace evict FILE --to STORE"


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """One file that was moved."""

    uri: str
    sha256: str
    bytes: int
    file: str

    @property
    def path(self) -> str:
        """Where it lies on this machine; "" where the store is not a file system's."""
        if self.uri.startswith("file:///"):
            return self.uri.removeprefix("file://")
        return self.uri if self.uri.startswith("/") else ""


def read_pointer(data: bytes, *, place: str) -> tuple[Block, ...]:
    """Read a pointer. Raises Problem."""
    try:
        text = data.decode("utf-8", "strict")
    except UnicodeDecodeError:
        raise _wrong(place, "bytes that are no UTF-8", "lines of name=value") from None
    blocks = []
    for part in re.split(r"\n[ \t]*\n", text.strip("\n")):
        if part.strip():
            blocks.append(_block(part, place))
    if not blocks:
        raise _wrong(place, "an empty pointer", "memory_uri=, sha256=, bytes= and file=")
    names = [one.file for one in blocks]
    if len(set(names)) != len(names):
        raise _wrong(place, "one file twice", "one block a file")
    return tuple(blocks)


def _block(text: str, place: str) -> Block:
    said: dict[str, str] = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if not equals or name not in _NAMES or not value or re.search("[\x00-\x1f\x7f]", value):
            raise _wrong(place, "a line that means nothing", f"one of {', '.join(f'{one}=' for one in _NAMES)}")
        if name in said:
            raise _wrong(place, f"{name}= twice in a block", "each once, and an empty line between blocks")
        said[name] = value
    missing = [name for name in _NAMES if name not in said]
    if missing:
        raise _wrong(place, f"no {missing[0]}=", "a pointer that can be checked before it is followed")
    uri, digest, size, file = (said[name] for name in _NAMES)
    if not re.fullmatch(r"/[^\s]+|[a-z][a-z0-9+.-]{1,30}://[^\s]+", uri) or ".." in uri.split("/"):
        raise _wrong(place, "a memory_uri that leads nowhere plain", "an absolute path or a URI of the store")
    if re.search(r"://[^/]*:[^/]*@", uri):
        raise _wrong(place, "a password in memory_uri", "an address alone; who may read it is the store's affair")
    if re.fullmatch(r"[0-9a-f]{64}", digest) is None:
        raise _wrong(place, "a sha256 that is none", "64 hex digits")
    if re.fullmatch(r"0|[1-9][0-9]{0,17}", size) is None:
        raise _wrong(place, "bytes that are no number", "the file's size")
    if "/" in file or "\\" in file or file in (".", ".."):
        raise _wrong(place, "a file that lies elsewhere", "the name that the file had beside the pointer")
    return Block(uri=uri, sha256=digest, bytes=int(size), file=file)


def write_pointer(blocks: tuple[Block, ...]) -> bytes:
    """Write a pointer's bytes."""
    return "\n".join(
        f"memory_uri={one.uri}\nsha256={one.sha256}\nbytes={one.bytes}\nfile={one.file}\n" for one in blocks
    ).encode()


def _wrong(place: str, found: str, wanted: str) -> Problem:
    return Problem(place, found=found, wanted=wanted, remedy=_REMEDY)
