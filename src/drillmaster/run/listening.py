"""The listener for alerts as a part of a drill. Its deafness is a stop: an alert that came meanwhile would be taken for none."""

from collections.abc import Mapping
from pathlib import Path

from drillmaster.child import Child, ChildLost
from drillmaster.clock import Clock
from drillmaster.detectors.settings import Settings

__all__ = ["ListenerPart"]

DEAF_S = 6.0


class ListenerPart(Child):
    """`python -m drillmaster.detectors`."""

    started = "listener_started"
    exited = "listener_exited"
    evidence: tuple[str, ...] = ("events/detectors.jsonl",)
    may_end = False

    def __init__(self, settings: Settings, control: Path, *, log: Path, env: Mapping[str, str], clock: Clock) -> None:
        super().__init__(
            "the listener for alerts",
            "drillmaster.detectors",
            settings,
            control,
            log=log,
            env=env,
            inherited=(settings.listen_fd,),
        )
        self._clock = clock
        self._heard_ns = 0

    async def complaint(self) -> str | None:
        """Why the drill has to be stopped."""
        now_ns = self._clock.mono_ns()
        try:
            said = await self.state()
        except ChildLost as lost:
            if self._heard_ns and now_ns - self._heard_ns > DEAF_S * 1e9:
                return f"{self.called} does not answer: {lost.why}"
            return None
        self._heard_ns = now_ns
        if said.get("evidence_lost"):
            return f"{self.called} could not write {said['evidence_lost']} lines of evidence"
        return None
