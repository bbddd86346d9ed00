"""Kills on the disk: one small file, replaced whole, on the disk before anybody is told that it is.

A file that is there and cannot be read, or that names what the registry does not, is no reason to let anything run: the
caller kills all that can be killed, and says so.
"""

import contextlib
import os
import secrets
from pathlib import Path
from typing import Literal

import msgspec

from drillmaster.errors import Problem
from drillmaster.strict import load_as
from drillmaster.timeline.opening import complaint
from drillmaster.timeline.writer import sync_folder

__all__ = ["Killed", "read_kills", "write_kills"]

MAX_BYTES = 1 << 18


class Killed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One kill, as it lies in the file."""

    capability: str
    by: str
    why: str
    at: str
    """RFC 3339."""


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    kind: Literal["kills"]
    version: Literal[1]
    killed: tuple[Killed, ...]


def read_kills(path: Path) -> tuple[Killed, ...]:
    """What is killed; nothing where there is no file. Raises Problem for one that cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return ()
    except OSError as error:
        found, remedy = complaint(error)
        raise Problem(str(path), found=found, wanted="the file of kills", remedy=remedy) from None
    try:
        data = os.read(fd, MAX_BYTES + 1)
    except OSError as error:
        found, remedy = complaint(error)
        raise Problem(str(path), found=found, wanted="the file of kills", remedy=remedy) from None
    finally:
        os.close(fd)
    return load_as(data, _File, place=str(path), fmt="json", cap_bytes=MAX_BYTES).killed


def write_kills(path: Path, killed: tuple[Killed, ...]) -> None:
    """Replace the file, and return when the disk has it. Raises OSError; then the old one stands."""
    content = msgspec.json.format(msgspec.json.encode(_File(kind="kills", version=1, killed=killed))) + b"\n"
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            with memoryview(content) as rest:
                at = 0
                while at < len(rest):
                    at += os.write(fd, rest[at:])
            os.fsync(fd)
        finally:
            os.close(fd)
        temporary.replace(path)
        sync_folder(path.parent)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
