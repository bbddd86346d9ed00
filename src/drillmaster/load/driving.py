"""Engines at one list of steps: what they said, what of it is on the disk, and who fell."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from drillmaster.errors import Problem
from drillmaster.ladder import Step
from drillmaster.load.process import Crew, Ended, Team
from drillmaster.load.sharing import Share
from drillmaster.load.tally import Tail
from drillmaster.load.together import Together

__all__ = ["Drive"]


class Drive:
    """One crew, from its first step to its last."""

    def __init__(
        self,
        team: Team,
        crew: Crew,
        planned: tuple[Step, ...],
        shares: tuple[tuple[Share, ...], ...],
        tails: list[Tail],
    ) -> None:
        self.crew = crew
        self.steps = {step.label: step for step in planned}
        self.together = Together(list(self.steps), len(shares))
        self._team = team
        self._labels = list(self.steps)
        self._shares = shares
        self._tails = tails
        self._found: Counter[tuple[str, int]] = Counter()

    def new(self) -> Iterator[tuple[str, list[tuple[int, ...]]]]:
        """Records that have come since the last look, by step. Raises Problem for those of another run."""
        for engine, tail in enumerate(self._tails):
            for stage, calls in tail.new():
                if stage >= len(self._labels):
                    raise Problem(
                        f"records of {self._team.name(engine)}",
                        found=f"a record of step {stage + 1}, of {len(self._labels)}",
                        wanted="steps of this run",
                        remedy="run the interview again",
                    )
                self._found[self._labels[stage], engine] += len(calls)
                yield self._labels[stage], calls

    def lost(self, label: str) -> str | None:
        """What an engine said that it did in a step that ended, and is not there; None: all of it is."""
        for engine, mine in enumerate(self._shares):
            said, found = self.together.calls(label, engine), self._found[label, engine]
            if said is not None and said != found:
                return f"{self._team.name(engine)} made {said} calls in {label}, and records of {found} are there"
            planned = mine[self._labels.index(label)].calls
            if len(self._shares) > 1 and planned != found and self.steps[label].seconds is None:
                return f"{self._team.name(engine)} had {planned} calls to make in {label}, and made {found}"
        return None

    def wrong(self, engine: int, said: Mapping[str, Any]) -> str | None:
        """Why an engine is not to be heard any more; None: what it said may be."""
        wrong = self.together.wrong(engine, said)
        return None if wrong is None else f"{self._team.name(engine)} said {wrong}"

    def silent(self, over_s: float) -> str | None:
        """Who has said nothing for so long, and how far it was heard of."""
        engine = self.crew.silent(over_s)
        if engine is None:
            return None
        stage, over = self.together.under_way(engine)
        where = f"before {stage}" if over is None else f"in {stage}, after {over} calls of it"
        return f"{self._team.name(engine)} said nothing for {over_s:g} s {where}"

    def fallen(self) -> int | None:
        """Who of several has ended before its last step; the others go on in vain."""
        return next((engine for engine in self.crew.gone if not self.together.finished(engine)), None)

    def how_it_fell(self, engine: int, end: Ended) -> str:
        """Who it was, how it ended, and how far it was heard of."""
        stage, over = self.together.under_way(engine)
        where = f"before {stage}" if over is None else f"in {stage}, after {over} calls of it"
        how = "was lost" if end.code is None else f"ended with code {end.code}"
        return f"{self._team.name(engine)} {how} {where}" + (f": {end.why}" if end.why else "")
