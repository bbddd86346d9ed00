"""Files of records sent over a channel: piece by piece, each with its place and digest, and whole at the end or not at all."""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

__all__ = ["PIECE_BYTES", "Growing", "Piece", "Received"]

PIECE_BYTES = 512 * 1024


class Piece(msgspec.Struct, frozen=True):
    """Some bytes of a file."""

    at: int
    data: bytes
    sha256: str


class Growing:
    """A file that somebody writes, as pieces."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.at = 0
        self._digest = hashlib.sha256()

    def next(self) -> Piece | None:
        """What was written behind the last piece; None: nothing yet. Raises OSError."""
        try:
            with self._path.open("rb") as file:
                file.seek(self.at)
                data = file.read(PIECE_BYTES)
        except FileNotFoundError:
            return None
        if not data:
            return None
        piece = Piece(self.at, data, hashlib.sha256(data).hexdigest())
        self.at += len(data)
        self._digest.update(data)
        return piece

    @property
    def sha256(self) -> str:
        """Of all pieces."""
        return self._digest.hexdigest()


class Received:
    """The same files at the other end."""

    def __init__(self, names: Mapping[str, str]) -> None:
        """Name of each kind of file; none of them may be there. Raises OSError."""
        self._files = {kind: Path(name).open("xb", buffering=0) for kind, name in names.items()}  # noqa: SIM115 - open until all has come
        self._digests = {kind: hashlib.sha256() for kind in names}
        self._sizes = dict.fromkeys(names, 0)

    def take(self, kind: str, at: int, data: bytes, sha256: str) -> str | None:
        """Why a piece is not the next one, whole; None: it is, and is on the disk."""
        if kind not in self._files or at != self._sizes[kind]:
            return f"a piece of its {kind} from byte {at}, and {self._sizes.get(kind, 0)} are there"
        if hashlib.sha256(data).hexdigest() != sha256:
            return f"a piece of its {kind} that is not as it was sent"
        view = memoryview(data)
        while view:
            view = view[os.write(self._files[kind].fileno(), view) :]
        self._digests[kind].update(data)
        self._sizes[kind] += len(data)
        return None

    def differ(self, told: Mapping[str, str]) -> str | None:
        """Why the files are not those of the worker; None: they are."""
        for kind, digest in self._digests.items():
            if told.get(kind) != digest.hexdigest():
                return f"its {kind} are not here as it wrote them"
        return None

    def close(self) -> None:
        for file in self._files.values():
            os.fsync(file.fileno())
            file.close()
