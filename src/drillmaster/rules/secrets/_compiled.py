"""Patterns of bytes, compiled when the first file needs them: all of them together would cost a hook half of its start."""

import re
from functools import cache

__all__ = ["compiled"]


@cache
def compiled(expression: bytes) -> re.Pattern[bytes]:
    """Compile an expression, once."""
    return re.compile(expression)
