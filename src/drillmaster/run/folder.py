"""A run's folder: made once, never reused, with the manifest in it before anything happens."""

import contextlib
import os
import re
import secrets
import sys
from pathlib import Path
from typing import Any

import msgspec

from drillmaster import strict
from drillmaster.clock import Clock, rfc3339
from drillmaster.errors import Problem
from drillmaster.plan import Outline, Plan
from drillmaster.screen import MARK, screen_argv, screen_text, screen_url
from drillmaster.strict import SECRET_NAME
from drillmaster.timeline.opening import complaint

__all__ = ["Folder", "make_folder", "versions"]

_SHORTEST_CHARS = 4
BALLAST_BYTES = 64 * 1024
"""Set aside at the start and given back at a stop, so that a full disk still takes the last lines and the seal."""


class Folder(msgspec.Struct, frozen=True, kw_only=True):
    """Where a run lies, and its zero on both clocks."""

    run: str
    path: Path
    wall0_ns: int
    mono0_ns: int

    @property
    def timeline(self) -> Path:
        return self.path / "timeline.jsonl"

    @property
    def events(self) -> Path:
        return self.path / "events"

    @property
    def ballast(self) -> Path:
        return self.path / ".ballast"

    def write_manifest(self, manifest: msgspec.Struct) -> None:
        """Write the manifest to the disk, whole or not at all. Raises OSError."""
        text = msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n"
        with (self.path / "manifest.json").open("xb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())

    def drop_ballast(self) -> None:
        """Give the reserve back; harmless when it is gone."""
        with contextlib.suppress(OSError):
            self.ballast.unlink()


def make_folder(runs: Path, clock: Clock) -> Folder:
    """Make `runs/<UTC start>-<4 hex>/`. Raises Problem where that cannot be written."""
    wall0_ns, mono0_ns = clock.wall_ns(), clock.mono_ns()
    stamp = rfc3339(wall0_ns, digits=0).replace("-", "").replace(":", "")
    try:
        if not runs.is_dir():
            runs.mkdir(parents=True, exist_ok=True)
            # Evidence holds what users asked and is large: into a repository it goes on purpose (git add -f), or not at all.
            (runs / ".gitignore").write_text("*\n", encoding="ascii")
        for _ in range(100):
            run = f"{stamp}-{secrets.token_hex(2)}"
            with contextlib.suppress(FileExistsError):
                path = runs.absolute() / run
                path.mkdir()
                folder = Folder(run=run, path=path, wall0_ns=wall0_ns, mono0_ns=mono0_ns)
                folder.events.mkdir()
                folder.timeline.touch()
                fd = os.open(folder.ballast, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
                try:
                    os.posix_fallocate(fd, 0, BALLAST_BYTES)
                finally:
                    os.close(fd)
                return folder
    except OSError as error:
        found, remedy = complaint(error)
        raise Problem(
            str(runs),
            found=found,
            wanted="a folder that can be written",
            remedy=f"{remedy}, or choose one with --runs DIR",
        ) from None
    raise Problem(
        str(runs), found="100 names taken", wanted="a free name", remedy="choose another folder with --runs DIR"
    )


def versions() -> dict[str, str]:
    """What the run was made with."""
    import importlib.metadata

    found = {"python": sys.version.split()[0], "platform": sys.platform}
    for name in ("drillmaster", "msgspec"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def plan_on_record(plan: Outline) -> dict[str, Any]:
    """The plan as the manifest holds it: values of headers and of the worker's environment stay out, the rest is screened."""
    record: dict[str, Any] = _screened(msgspec.to_builtins(plan))
    if "headers" in record["target"]:
        record["target"]["headers"] = dict.fromkeys(record["target"]["headers"], "(not recorded)")
    record["target"]["url"] = screen_url(plan.target.url)
    if record["worker"] is not None:
        record["worker"]["env"] = dict.fromkeys(record["worker"]["env"], "(not recorded)")
        record["worker"]["cmd"] = screen_argv(plan.worker.cmd if plan.worker is not None else ())
    return record


def plan_text_on_record(text: str, plan: Outline) -> str:
    """The plan's own text as the run keeps it: screened, and without what the plan says is a secret by where it stands.

    That is the values of headers and of the worker's environment, and what follows a telling option of its command,
    wherever the text has them as a word; those of fewer than four characters would take half of it with them.
    """
    hidden = {*getattr(plan.target, "headers", {}).values()}  # a base URL has none
    if plan.worker is not None:
        hidden |= {*plan.worker.env.values()}
        said = screen_argv(plan.worker.cmd)
        hidden |= {word for word, kept in zip(plan.worker.cmd, said, strict=True) if kept == MARK}
    for word in sorted(hidden, key=len, reverse=True):
        if len(word) >= _SHORTEST_CHARS and "${" not in word:
            text = re.sub(rf"(?<![\w.-]){re.escape(word)}(?![\w-])", MARK, text)
    return screen_text(text)


def _screened(value: Any, name: str = "") -> Any:
    if isinstance(value, str):
        return MARK if value and SECRET_NAME.search(name) else screen_text(value)
    if isinstance(value, dict):
        return {name: _screened(inner, name) for name, inner in value.items()}
    return [_screened(inner, name) for inner in value] if isinstance(value, list | tuple) else value


def payload_sha256(plan: Plan) -> str:
    """The digest of what users ask: method, URL, names of headers, body and payload set."""
    target = plan.target
    return strict.digest(
        {
            "method": target.method,
            "url": target.url,
            "headers": sorted(target.headers),
            "body": target.body,
            "payloads": list(target.payloads),
        }
    )
