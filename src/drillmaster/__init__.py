"""Reliability drills and fail-closed gates for teams that run LLM agents on endpoints they do not control."""

from typing import TYPE_CHECKING

__version__ = "0.1.0"
__all__ = ["__version__", "mark"]

if TYPE_CHECKING:
    from drillmaster.timeline import mark


def __getattr__(name: str) -> object:
    # A worker that only wants `mark` pays for `timeline` alone, and one that wants a guard does not pay even for that.
    if name == "mark":
        from drillmaster.timeline import mark

        return mark
    raise AttributeError(f"module 'drillmaster' has no attribute {name!r}")
