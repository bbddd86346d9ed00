"""Which model an attempt asked for, as far as its body was read: a fault may strike before it is."""

from collections.abc import Iterable

from drillmaster.outcomes import Attempt, Run, Window

__all__ = ["Models", "another_model", "usual_models"]


class Models:
    """Whether two attempts of a run ask for one model."""

    def __init__(self, run: Run) -> None:
        self._naming = {a.dialect for a in run.attempts if a.model is not None}
        """Dialects in which this agent names a model: one that is not there was not read."""
        self._usual = usual_models(run)

    def one(self, failed: Attempt, later: Attempt) -> bool | None:
        """None: nobody can tell, since one of the two was not read."""
        if failed.model is not None and later.model is not None:
            return failed.model == later.model
        if not any(a.model is None and a.dialect in self._naming for a in (failed, later)):
            return failed.model == later.model
        # Nobody read what failed; the agent asks for this model only when something failed, so that it was another.
        return False if self._usual and later.model is not None and later.model not in self._usual else None


def usual_models(run: Run) -> frozenset[str]:
    """Name the models that the agent asked for before the first injection."""
    first_ns = min((window.injected_ns for window in run.windows), default=0)
    return frozenset(a.model for a in run.attempts if a.model is not None and a.start_ns < first_ns)


def another_model(attempts: Iterable[Attempt], window: Window, usual: frozenset[str]) -> Attempt | None:
    """Find among a request's attempts that met the fault a later one, for a model that nobody asked for before it."""
    met = [a for a in attempts if a.window == window.id]
    return next((a for a in met[1:] if a.model is not None and a.model not in usual), None) if usual else None
