"""A file of the run as it grows: its new lines, whenever somebody looks."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["Tail"]

_MOST_BYTES = 8 << 20


class Tail:
    """The whole lines that were written to a file of the run since it was last looked at."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0

    def rows(self) -> Iterator[dict[str, Any]]:
        """Give the new lines. What is no object of JSON is left to who reads the sealed run."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._at)
                data = file.read(_MOST_BYTES)
        except OSError:
            return
        whole = data.rfind(b"\n") + 1
        self._at += whole
        for line in data[:whole].split(b"\n"):
            try:
                row = json.loads(line) if line.strip() else None
            except ValueError:
                continue
            if isinstance(row, dict):
                yield row
