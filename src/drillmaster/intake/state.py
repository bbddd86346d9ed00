"""The user's state folder: tokens and locks of live runs, the ledger of attempts, what the self-test said."""

import os
from pathlib import Path

__all__ = ["state_root"]


def state_root() -> Path:
    """Name it: DRILLMASTER_STATE, else what the platform says. It need not be there."""
    named = os.environ.get("DRILLMASTER_STATE")
    if named:
        return Path(named).absolute()
    import platformdirs

    return platformdirs.user_state_path("drillmaster")
