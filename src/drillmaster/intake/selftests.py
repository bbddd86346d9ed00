"""The self-test before a verdict: played once for each state of the code, and remembered by its digest."""

import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

import drillmaster
from drillmaster.errors import Problem
from drillmaster.gates import Shown

__all__ = ["code_digest", "must_go_red", "tested"]

_PACKAGE = os.path.dirname(drillmaster.__file__)  # noqa: PTH120  # as below
_DECIDES = ("gates", "rules", "strict", "outcomes", "evidence")


def code_digest(state: Path) -> str:
    """Digest what decides: gates with their cases, rules, and the modules at the top of the package.

    Content is read where a file is not as it was: `state` keeps the digest by sizes, inodes and times of change, which no edit
    leaves as they were.
    """
    files = sorted(_decides())
    seen = hashlib.sha256()
    for path in files:
        status = os.stat(path)  # noqa: PTH116  # a Path for each of two hundred costs more than the rest
        seen.update(f"{path}\0{status.st_size}\0{status.st_ino}\0{status.st_ctime_ns}\n".encode("utf-8", "replace"))
    kept = state / "selftest" / f"code-{seen.hexdigest()[:32]}"
    with contextlib.suppress(OSError, UnicodeDecodeError):
        known = kept.read_text("ascii")
        if len(known) == 64:
            return known
    digest = hashlib.sha256()
    for path in files:
        content = Path(path).read_bytes()
        digest.update(f"{os.path.relpath(path, _PACKAGE)} {len(content)}\n".encode() + content)
    _keep(kept, digest.hexdigest().encode())
    return digest.hexdigest()


def _decides() -> Iterator[str]:
    folders = [os.path.join(_PACKAGE, name) for name in _DECIDES]  # noqa: PTH118  # as above
    with os.scandir(_PACKAGE) as top:
        yield from (one.path for one in top if one.name.endswith(".py"))
    while folders:
        with os.scandir(folders.pop()) as entries:
            for one in entries:
                if one.name.endswith((".py", ".toml", ".json")):
                    yield one.path
                elif one.name != "__pycache__" and one.is_dir():
                    folders.append(one.path)


def _keep(path: Path, content: bytes) -> None:
    """Keep what saves time the next time. It is no evidence: where it cannot be kept, nothing is lost."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        whole = path.with_name(f".{path.name}.{os.getpid()}")
        whole.write_bytes(content)
        whole.replace(path)


def tested(name: str, state: Path) -> list[Shown]:
    """Give a gate's self-test, from `state` where this code was tested before. One that cannot be kept is played again."""
    path = state / "selftest" / f"{name}-{code_digest(state)[:32]}.json"
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        kept = msgspec.json.decode(path.read_bytes(), type=list[Shown])
        if kept and all(one.holds for one in kept):  # what failed may have been this machine's own trouble
            return kept
    from drillmaster.gates._selftest import selftest

    shown = selftest(name)
    _keep(path, msgspec.json.encode(shown))
    return shown


def must_go_red(name: str, state: Path) -> None:
    """Refuse to judge by a gate of which a check cannot go red, or green. Raises Problem."""
    broken = [f"{one.check}: {one.problems[0]}" for one in tested(name, state) if not one.holds]
    if broken:
        raise Problem(
            f"gate {name}",
            found=f"{len(broken)} of its checks that cannot be believed: {'; '.join(broken[:3])}",
            wanted="each check to go red on its red case and green on its green one",
            remedy=f"drillmaster gate selftest {name} shows them; pip install --force-reinstall drillmaster mends a changed one",
        )
