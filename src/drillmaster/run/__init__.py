"""Carry a plan out: open a run, walk its phases, lift on every way out, seal what there is.

`conduct` is the door of eviction drills and matrices, `conduct_friday` that of Friday drills. Behind both the conductor has
users, an injector, further parts, a worker and a Scribe, each by its protocol.
"""

from drillmaster.run.fridays import conduct_friday
from drillmaster.run.notes import Scene, Scribe
from drillmaster.run.opening import conduct
from drillmaster.run.progress import Plain, Progress, Silent, Terminal, progress_for
from drillmaster.run.ready import Options, Picked
from drillmaster.run.staging import RunResult

__all__ = [
    "Options",
    "Picked",
    "Plain",
    "Progress",
    "RunResult",
    "Scene",
    "Scribe",
    "Silent",
    "Terminal",
    "conduct",
    "conduct_friday",
    "progress_for",
]
