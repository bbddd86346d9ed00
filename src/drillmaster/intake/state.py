"""The user's state folder: tokens and locks of live runs, the ledger of attempts, what the self-test said."""

import os
from pathlib import Path

__all__ = ["state_root"]


def state_root() -> Path:
    """Name it: DRILLMASTER_STATE, else by the XDG Base Directory Specification. It need not be there."""
    named = os.environ.get("DRILLMASTER_STATE")
    if named:
        return Path(named).absolute()
    told = Path(os.environ.get("XDG_STATE_HOME") or ".")
    return (told if told.is_absolute() else Path.home() / ".local" / "state") / "drillmaster"
