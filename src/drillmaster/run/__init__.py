"""Carry a plan out: open a run, walk its phases, lift on every way out, seal what there is.

`conduct` is the door. Behind it the conductor has four parts: traffic, the proxy that injects, a worker, a Scribe.
"""

from drillmaster.run.notes import Scene, Scribe
from drillmaster.run.opening import RunResult, conduct
from drillmaster.run.progress import Plain, Progress, Silent, Terminal, progress_for
from drillmaster.run.ready import Options, Picked

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
    "progress_for",
]
