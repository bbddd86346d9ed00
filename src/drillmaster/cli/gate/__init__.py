"""`drillmaster gate`: judge evidence by a policy. The exit code is the verdict. One file a gate, and those about gates."""

import contextlib
import gc
from collections.abc import Iterator

import click

from drillmaster.cli import Verbs

__all__ = ["command"]

YOUNG_OBJECTS = 100_000
"""So many stand before the collector looks for garbage, some 20 MB of them: most gates end before."""


class _Gates(Verbs):
    def invoke(self, ctx: click.Context) -> object:
        with _seldom_collected():
            return super().invoke(ctx)


@contextlib.contextmanager
def _seldom_collected() -> Iterator[None]:
    """Look for garbage seldom. A gate lives for a moment, most of it in imports, which leave none."""
    before = gc.get_threshold()
    gc.set_threshold(YOUNG_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


command = _Gates(
    package=__name__,
    name="gate",
    help="""Judge evidence by a policy: 0 pass, 1 fail, 2 refused.

    A gate is pure: the same evidence, policy and --now give the same verdict on any machine. In CI name the ref that a change
    is for with --base: policy and lists are then read from there, and a change to what judges it is a finding.

    \b
    Begin with:
      drillmaster gate list               # what can be judged, and by what
      drillmaster gate explain canary     # what each check asks, and how it is mended
      drillmaster gate selftest           # every check is shown to go red and green
    """,
)
