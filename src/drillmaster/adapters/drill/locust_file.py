"""Run somebody's Locust file as it is: the command, and what its process finds in its environment.

The target is the drill's (`--host` wins over what the file says), and so are the number of users and their pace. What the drill
needs to know comes from a small plugin that Locust loads beside the file (`locust_plugin`). No web page is opened, and an exit
code that counts one failure as a broken test decides nothing.
"""

import json
from pathlib import Path
from typing import Any

__all__ = ["locust_command"]

_PLUGIN = Path(__file__).with_name("locust_plugin.py")


def locust_command(
    path: str,
    python: str,
    *,
    url: str,
    users: int,
    users_per_s: float,
    stop_s: float,
    cwd: str,
    said: dict[str, Any],
) -> tuple[list[str], dict[str, str], str]:
    """The words of the command, what its environment has besides ours, and where it runs."""
    argv = [python, "-m", "locust", "-f", f"{path},{_PLUGIN}", "--headless", "--host", url]
    argv += ["-u", str(users), "-r", f"{users_per_s:g}", "--stop-timeout", f"{stop_s:g}"]
    argv += ["--only-summary", "--exit-code-on-error", "0", "--loglevel", "WARNING"]
    return argv, {"DRILLMASTER_LOCUST": json.dumps(said), "PYTHONDONTWRITEBYTECODE": "1", "NO_PROXY": "*"}, cwd
