"""Files of a live run, held by a descriptor each: what is taken away, replaced or shortened under us is noticed.

Evidence that somebody deletes in mid-drill goes on being written, to a file that nobody will find. A descriptor keeps the
inode from being given to another file meanwhile, so that the same number means the same file.
"""

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from drillmaster.errors import Problem
from drillmaster.evidence import SealedFile
from drillmaster.timeline.opening import complaint, open_evidence

__all__ = ["Pins"]


class _Pin:
    __slots__ = ("fd", "key", "size_bytes")

    def __init__(self, fd: int) -> None:
        status = os.fstat(fd)
        self.fd = fd
        self.key = (status.st_dev, status.st_ino)
        self.size_bytes = status.st_size


class Pins:
    """The files of one run's folder that have to stay what they are."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pins: dict[str, _Pin] = {}

    def hold(self, *names: str) -> None:
        """Hold files from now on, by their names in the folder. Raises Problem where one is not there, or no file."""
        for name in names:
            if name not in self._pins:
                self._pins[name] = _Pin(open_evidence(self._folder / name))

    def complaint(self) -> str | None:
        """Say which file is not what it was; None: all of them are, and none is shorter than when it was last looked at."""
        for name, pin in self._pins.items():
            try:
                here = (self._folder / name).lstat()
            except FileNotFoundError:
                return f"{name} was taken away"
            except OSError as error:
                return f"{name} cannot be looked at: {complaint(error)[0]}"
            if not stat.S_ISREG(here.st_mode):
                return f"in the place of {name} is something that is no regular file"
            if (here.st_dev, here.st_ino) != pin.key:
                return f"in the place of {name} is another file"
            if here.st_size < pin.size_bytes:
                return f"{name} was cut from {pin.size_bytes} to {here.st_size} bytes"
            pin.size_bytes = here.st_size
        return None

    def uncovered(self, sealed: Mapping[str, SealedFile]) -> str | None:
        """Say which file, as long as it was when last looked at, a seal does not cover; None: it covers all."""
        for name, pin in self._pins.items():
            entry = sealed.get(name)
            if entry is None:
                return f"{name} is not in the seal"
            if entry.bytes < pin.size_bytes:
                return f"the seal ends at byte {entry.bytes} of {name}, which had {pin.size_bytes}"
        return None

    def close(self) -> None:
        """Let go of all."""
        for pin in self._pins.values():
            os.close(pin.fd)
        self._pins = {}

    def __contains__(self, name: str) -> bool:
        return name in self._pins


def uncovered_problem(run_dir: Path, why: str) -> Problem:
    """What a seal that does not cover the run is told as."""
    return Problem(
        os.fspath(run_dir / "seal.json"),
        found=why,
        wanted="a seal of the whole run, made after its last line",
        remedy="run the drill again, and leave its folder alone meanwhile",
    )
