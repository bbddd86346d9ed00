"""The lock of contracts: which bytes of which file somebody answers for, and which are to come.

1. `files` holds the digest of each contract on the default branch. `pending` holds digests that a person reviewed and that
   are not merged yet. A change may add to `pending` and to nothing else.
2. What is merged is made final on the default branch, and only there: the digest moves from `pending` to `files`.
3. The lock names the digest of the lock that it was written over, so that of two changes that were reviewed beside each
   other the second is looked at again. It names for each pending digest the one before, when the review ends to count, and
   who reviewed.
4. A deletion is pending as well, with no digest. A file that moved is a deletion and an addition.
5. The article's lock (`version`, `files`, `pending` of bare digests) is read as it is. It has no room for rule 3 and for
   deletions; what it cannot say is not made up.
"""

import re
from typing import Any, Literal

import msgspec

from drillmaster import strict
from drillmaster.errors import Problem
from drillmaster.strict import canonical

__all__ = [
    "CAP_BYTES",
    "Lock",
    "Pending",
    "dropped",
    "finalized",
    "is_digest",
    "path_fault",
    "pended",
    "read_lock",
    "written",
]

CAP_BYTES = 4 << 20
_DIGEST = re.compile(r"[0-9a-f]{64}")


class Pending(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A review of bytes to come. `sha256` None: the file is to go. `previous` None: it is new. Days are UTC."""

    sha256: str | None
    previous: str | None
    expires: str
    """Last day on which it counts."""
    reviewer: str
    second: str = ""
    """Another reviewer, where the policy wants two."""
    reason: str = ""


class Lock(msgspec.Struct, frozen=True, kw_only=True):
    """A lock as it was read. `article`: it was the article's, without chain, expiry and reviewer. `digest` is of its bytes."""

    files: dict[str, str]
    pending: dict[str, Pending]
    previous: str | None = None
    article: bool = False
    digest: str = ""


class _Ours(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    kind: Literal["contract-lock"]
    version: Literal[1]
    previous: str | None
    files: dict[str, str]
    pending: dict[str, Pending]


class _Article(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: Literal[1]
    files: dict[str, str]
    pending: dict[str, str] = {}


def is_digest(text: str | None) -> bool:
    """Whether it is a SHA-256 as it is written here: 64 lower-case hex digits."""
    return text is not None and _DIGEST.fullmatch(text) is not None


def path_fault(path: str) -> str:
    """Say why a text is no path of a file within the repository; empty: it is one."""
    if not path or path.startswith("/") or "\\" in path or "\0" in path:
        return "no path from the root of the repository, with / between folders"
    if any(part in ("", ".", "..") for part in path.split("/")):
        return "an empty name, `.` or `..` in it"
    return ""


def read_lock(data: bytes, *, place: str) -> Lock:
    """Decode a lock, ours or the article's. Raises Problem."""
    import hashlib

    loaded = strict.load(data, place=place, fmt="json", cap_bytes=CAP_BYTES)
    digest = hashlib.sha256(data).hexdigest()
    for field in ("files", "pending"):
        names: Any = loaded.get(field) if isinstance(loaded, dict) else None
        for path in names if isinstance(names, dict) else ():
            fault = path_fault(path)
            if fault:
                raise Problem(
                    f"{place}: {strict.pointer((field, path))}",
                    found=fault,
                    wanted="a contract's path as git has it",
                    remedy="take the entry out",
                )
    if isinstance(loaded, dict) and "kind" not in loaded:
        old: _Article = strict.as_type(loaded, _Article, place=place)
        pending = {
            path: Pending(sha256=one, previous=old.files.get(path), expires="", reviewer="")
            for path, one in old.pending.items()
        }
        return Lock(files=old.files, pending=pending, article=True, digest=digest)
    ours: _Ours = strict.as_type(loaded, _Ours, place=place)
    _hexed(ours, place)
    return Lock(files=ours.files, pending=ours.pending, previous=ours.previous, digest=digest)


def _hexed(lock: _Ours, place: str) -> None:
    digests: list[tuple[tuple[str, ...], str | None]] = [(("previous",), lock.previous)]
    digests += [(("files", path), one) for path, one in lock.files.items()]
    for path, one in lock.pending.items():
        digests += [(("pending", path, "sha256"), one.sha256), (("pending", path, "previous"), one.previous)]
        if one.sha256 is None and one.previous is None:
            raise Problem(
                f"{place}: {strict.pointer(('pending', path))}",
                found="neither bytes before nor bytes after",
                wanted="a digest of one of them",
                remedy=f"drillmaster contract pend {path}",
            )
    for at, digest in digests:
        if (digest is None and at[0] != "files") or is_digest(digest):
            continue
        raise Problem(
            f"{place}: {strict.pointer(at)}",
            found=strict.shown(digest),
            wanted="64 lower-case hex digits of a SHA-256",
            remedy=f"drillmaster contract pend {at[1]}" if len(at) > 1 else "restore the lock: git checkout -- FILE",
        )


def written(lock: Lock) -> bytes:
    """Write a lock, sorted, one entry a line, so that two reviews conflict only where they meet. The article's stays one."""
    import json

    value: dict[str, Any] = {
        "kind": "contract-lock",
        "version": 1,
        "previous": lock.previous,
        "files": dict(sorted(lock.files.items())),
        "pending": {path: msgspec.to_builtins(one) for path, one in sorted(lock.pending.items())},
    }
    if lock.article:
        pending = {path: one.sha256 for path, one in sorted(lock.pending.items())}
        value = {"version": 1, "files": value["files"], "pending": pending}
    canonical(value)  # what is not JSON is found before it is written
    return json.dumps(value, indent=2, ensure_ascii=False).encode() + b"\n"


def pended(lock: Lock, path: str, pending: Pending, *, over: str | None) -> Lock:
    """Add a review. `over` is the digest of the lock that the change started from.

    The article's lock becomes one of ours; what it has pending names no reviewer, and is not taken over.
    """
    kept = {} if lock.article else lock.pending
    return Lock(files=lock.files, pending={**kept, path: pending}, previous=over)


def dropped(lock: Lock, paths: tuple[str, ...], *, over: str | None) -> Lock:
    """Take reviews back."""
    left = {p: one for p, one in lock.pending.items() if p not in paths}
    return Lock(files=lock.files, pending=left, previous=over, article=lock.article)


def finalized(lock: Lock, at_head: dict[str, str], *, over: str | None) -> tuple[Lock, tuple[str, ...]]:
    """Move what was merged from `pending` to `files`. `at_head` has the digest of each pending path, "" where it is gone."""
    files, moved = dict(lock.files), []
    for path, one in lock.pending.items():
        if at_head.get(path, "") != (one.sha256 or ""):
            continue
        moved.append(path)
        if one.sha256 is None:
            files.pop(path, None)
        else:
            files[path] = one.sha256
    pending = {path: one for path, one in lock.pending.items() if path not in moved}
    return Lock(files=files, pending=pending, previous=over, article=lock.article), tuple(moved)
