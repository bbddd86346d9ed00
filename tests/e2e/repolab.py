"""Repositories made for a test: commits by anybody, signed or not, with keys that are thrown away."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

__all__ = ["ADA", "BO", "BOT", "ROSTER", "Keys", "Repo"]

ADA, BO, BOT = "Ada <ada@example.com>", "Bo <bo@example.com>", "robot[bot] <robot@example.com>"
ROSTER = """kind: roster
version: 1
people:
  - {identity: ada, emails: [ada@example.com], logins: [ada-l]}
  - {identity: bo, emails: [bo@example.com], logins: [bo-l]}
  - {identity: robot, emails: [robot@example.com], logins: [robot-l], kind: bot}
  - {identity: gone, emails: [gone@example.com], until: 2020-01-01}
"""


class Keys:
    """One SSH key a person, made when it is asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def private(self, who: str) -> Path:
        path = self._folder / who
        if not path.exists():
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", who, "-f", str(path)], check=True, timeout=30
            )
        return path

    def allowed(self, *people: str, options: str = "") -> str:
        lines = [f"{who} {options}{self.private(who).with_suffix('.pub').read_text()}" for who in people]
        return "".join(lines)


class Repo:
    """A repository with `main`; everything is committed as somebody, at a fixed time."""

    def __init__(self, folder: Path, keys: Keys | None = None) -> None:
        self.path = folder
        self.keys = keys
        folder.mkdir(parents=True, exist_ok=True)
        self.git("init", "-q", "-b", "main")

    def git(self, *args: str, env: Mapping[str, str] = {}) -> str:
        base = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        base |= {"HOME": str(self.path.parent), "GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_DATE": "2026-11-30T08:00:00Z"}
        base |= {"GIT_COMMITTER_DATE": "2026-11-30T08:00:00Z", **env}
        return subprocess.run(
            ["git", "-C", str(self.path), *args], check=True, capture_output=True, text=True, env=base, timeout=60
        ).stdout.strip()

    def write(self, files: Mapping[str, str | bytes | None]) -> None:
        """Write files; None removes one."""
        for name, content in files.items():
            path = self.path / name
            if content is None:
                path.unlink()
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)

    def commit(
        self,
        files: Mapping[str, str | bytes | None] = {},
        *,
        by: str = ADA,
        message: str = "change",
        signed: str | None = None,
    ) -> str:
        """Commit as somebody; `signed` is whose key signs it. Gives the commit's name."""
        self.write(files)
        self.git("add", "-A")
        name, _, address = by.rstrip(">").partition(" <")
        who = {
            f"GIT_{role}_{what}": value
            for role in ("AUTHOR", "COMMITTER")
            for what, value in (("NAME", name), ("EMAIL", address))
        }
        sign: tuple[str, ...] = ("-c", "commit.gpgsign=false")
        if signed is not None:
            assert self.keys is not None
            sign = (
                "-c",
                "gpg.format=ssh",
                "-c",
                f"user.signingkey={self.keys.private(signed)}",
                "-c",
                "commit.gpgsign=true",
            )
        self.git(*sign, "commit", "-q", "--allow-empty", "-m", message, env=who)
        return self.git("rev-parse", "HEAD")

    def branch(self, name: str) -> None:
        self.git("checkout", "-q", "-b", name)
