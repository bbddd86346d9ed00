"""Where a service's tokens and kills lie: a folder of its own in the user's state folder, 0700, each file 0600.

Three token files of one Unix user separate nobody by force: they are procedure. The folder outlives drills and servers; what
is in it may be deleted while no server runs, but for `kills.json`, whose absence means that nothing is killed.
"""

import os
import re
import secrets
from pathlib import Path

from drillmaster.errors import Problem
from drillmaster.intake.state import state_root
from drillmaster.timeline.opening import complaint

__all__ = ["KILLS", "SEATS", "folder_of", "kills_path", "make_tokens"]

SEATS = ("lead", "kill", "read")
KILLS = "kills.json"


def folder_of(service: str) -> Path:
    """The folder of a service; it need not be there."""
    slug = re.sub(r"[^A-Za-z0-9._-]+", "-", service).strip(".-")[:60] or "service"
    return state_root() / "flags" / slug


def kills_path(service: str) -> Path:
    """Where a service's kills lie; its folder is made. Raises Problem."""
    return _made(folder_of(service)) / KILLS


def make_tokens(folder: Path) -> dict[str, Path]:
    """Make the token files that are not there, in a folder that is made. Raises Problem."""
    _made(folder)
    paths = {seat: folder / f"{seat}.token" for seat in SEATS}
    for path in paths.values():
        try:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            continue
        except OSError as error:
            raise _problem(path, error) from None
        try:
            os.write(fd, secrets.token_urlsafe(32).encode() + b"\n")
        except OSError as error:
            path.unlink(missing_ok=True)
            raise _problem(path, error) from None
        finally:
            os.close(fd)
    return paths


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        status = folder.stat()
        if status.st_uid != os.getuid():
            raise Problem(
                str(folder),
                found=f"a folder of uid {status.st_uid}",
                wanted="your own",
                remedy="set DRILLMASTER_STATE to a folder of yours",
            )
        if status.st_mode & 0o077:
            folder.chmod(0o700)
    except OSError as error:
        raise _problem(folder, error) from None
    return folder


def _problem(path: Path, error: OSError) -> Problem:
    found, remedy = complaint(error)
    return Problem(str(path), found=found, wanted="a state folder that takes tokens", remedy=remedy)
