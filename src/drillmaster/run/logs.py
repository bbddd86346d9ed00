"""The conductor's own writers, one file each."""

import msgspec

from drillmaster.clock import Clock
from drillmaster.run.folder import Folder
from drillmaster.timeline import Writer

__all__ = ["Logs", "open_logs"]


class Logs(msgspec.Struct, frozen=True):
    """What happened, what the Scribe said, and the users', where they are played by the conductor's own process."""

    conductor: Writer
    notes: Writer
    traffic: Writer | None

    @property
    def files(self) -> tuple[str, ...]:
        """Their names in the run folder."""
        return tuple(f"events/{name}.jsonl" for name in self.__struct_fields__ if getattr(self, name) is not None)

    def sync(self) -> None:
        for writer in self._all():
            writer.sync()

    def close(self) -> None:
        for writer in self._all():
            writer.close()

    def _all(self) -> tuple[Writer, ...]:
        return tuple(filter(None, (self.conductor, self.traffic, self.notes)))


def open_logs(folder: Folder, clock: Clock, *, traffic: bool) -> Logs:
    """Open them in a run's folder. `traffic`: whether the users are ours to write down."""
    names = ("conductor", "notes", *(("traffic",) if traffic else ()))
    made = [Writer(folder.events / f"{name}.jsonl", clock, folder.mono0_ns) for name in names]
    return Logs(made[0], made[1], made[2] if traffic else None)
