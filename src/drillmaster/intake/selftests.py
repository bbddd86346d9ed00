"""The self-test before a verdict: played once for each state of the code, and remembered by its digest."""

import hashlib
import os
from pathlib import Path

import msgspec

import drillmaster
from drillmaster.errors import Problem
from drillmaster.gates._selftest import Shown, selftest

__all__ = ["code_digest", "must_go_red", "tested"]

_PACKAGE = Path(drillmaster.__file__).parent
_DECIDES = ("gates", "rules", "strict", "outcomes", "evidence")


def code_digest() -> str:
    """Digest what decides: gates with their cases, rules, and the modules at the top of the package."""
    files = [path for folder in _DECIDES for path in (_PACKAGE / folder).rglob("*") if path.suffix in (".py", ".toml")]
    digest = hashlib.sha256()
    for path in sorted([*files, *_PACKAGE.glob("*.py")]):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(_PACKAGE)} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def tested(name: str, state: Path) -> list[Shown]:
    """Give a gate's self-test, from `state` where this code was tested before. One that cannot be kept is played again."""
    path = state / "selftest" / f"{name}-{code_digest()[:32]}.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[Shown])
    except (OSError, msgspec.MsgspecError):
        pass
    shown = selftest(name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        whole = path.with_name(f".{path.name}.{os.getpid()}")
        whole.write_bytes(msgspec.json.encode(shown))
        whole.replace(path)
    except OSError:
        pass  # it is a saving, and no evidence
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
