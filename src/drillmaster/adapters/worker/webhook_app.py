"""The terminator of a settings file, for `drillmaster webhook serve` and for whoever has an ASGI server, or tracing, of their own.

`app = terminator("webhook.yaml")` in a module, then any ASGI server. What a server does before the application is its own: heads
that never end, connections without number, and whether it listens on loopback alone.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from drillmaster.adapters.worker.recording import Recorder
from drillmaster.adapters.worker.webhook import Endpoint, Keeper, Terminator, Told
from drillmaster.adapters.worker.webhook_settings import Settings, endpoint_of, keys_of, read_settings
from drillmaster.clock import SystemClock
from drillmaster.errors import one_line
from drillmaster.guards import Decision
from drillmaster.stores.inbox import Inbox
from drillmaster.stores.inbox_opening import open_inbox

__all__ = ["application", "terminator"]


def terminator(path: str | os.PathLike[str], *, environ: Mapping[str, str] | None = None) -> Terminator:
    """Make production's application. Raises Problem: without keys, for a file that is not right, for an inbox that is not there."""
    file = Path(path)
    place = one_line(str(file))
    settings = read_settings(file, clock=SystemClock())
    keys = keys_of(settings, os.environ if environ is None else environ, file.absolute().parent, place=place)
    return application(settings, endpoint_of(settings, keys, place=place), settings.inbox)


def application(settings: Settings, endpoint: Endpoint, named: str) -> Terminator:
    """Make an endpoint's application over an inbox. Its decisions go to the timeline that DRILL_LOG names."""

    def opened() -> Inbox:
        return open_inbox(named, within_s=settings.store_within_s)

    with opened() as inbox:
        inbox.counts()  # not prepared, or not there: said now, and not to a provider
    recorder = Recorder()

    def recorded(told: Told) -> None:
        recorder.record(endpoint.source, told.guard, None, Decision(allowed=told.allowed, reason=told.reason))

    keeper = Keeper.of(named, opened, within_s=settings.store_within_s)
    return Terminator(endpoint, keeper, on_decision=recorded)
