"""Loads that another program sends."""

from typing import Any, NoReturn

from drillmaster.errors import Problem

__all__ = ["foreign_load"]


def foreign_load(load: Any, nth: int, book: Any, watch: Any, settings: Any, environ: dict[str, str]) -> NoReturn:
    """Raises Problem."""
    raise Problem("missions", found=f"a load by {load.source}", wanted="missions of ours", remedy="translate it")
