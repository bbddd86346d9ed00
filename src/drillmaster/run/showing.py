"""What is shown of a drill once a second: phase and counts, a warning from the baseline, the scene for a stand-in Scribe."""

from collections.abc import Callable, Iterable
from pathlib import Path

from drillmaster.conduct import State
from drillmaster.run.notes import Scene
from drillmaster.run.progress import Progress
from drillmaster.run.traffic import Tally

__all__ = ["Showing"]

SHOWN_REQUESTS = 5
"""So many users served show how the agent asks its endpoint."""


class Showing:
    """One drill's. `forewarn`: what the baseline shows of a fault that would meet nobody, asked once."""

    def __init__(
        self,
        progress: Progress,
        *,
        forewarn: Callable[[], Iterable[str]],
        scribe: Callable[[Scene], None] | None,
        run_dir: Path,
        by_hand: bool,
    ) -> None:
        self._progress = progress
        self._forewarn = forewarn
        self._scribe = scribe
        self._run_dir = run_dir
        self._by_hand = by_hand
        self._forewarned = False
        self._at_injection: dict[str, int] = {}

    def injected(self, tally: Tally) -> None:
        """Keep what users got before the injection apart."""
        self._at_injection = dict(tally.by_outcome)

    def show(self, state: State, tally: Tally, phase: str, left_s: float | None) -> None:
        if state is State.BASELINE and tally.done >= SHOWN_REQUESTS and not self._forewarned:
            self._forewarned = True
            for warning in self._forewarn():
                self._progress.line(warning)
        if self._by_hand and phase in ("baseline", "fault"):
            left_s = None
        self._progress.tick(phase, left_s, tally.by_outcome, tally.in_flight)
        if self._scribe is None:
            return
        before = self._at_injection
        since = {word: n - before.get(word, 0) for word, n in tally.by_outcome.items()} if before else {}
        self._scribe(Scene(state=state, since_injection=since, run_dir=self._run_dir))
