"""Run somebody's Artillery profile with the Artillery that is installed: the command, and what its environment has besides ours.

The target is the drill's (`--target` wins over what the profile says). Artillery's own report has no single request in it, so a
small module that Node loads first writes a line for each (`artillery_preload.cjs`). What the profile's own checks (`expect`,
`match`, `capture`) say is Artillery's: a request is judged here by its status and by an error in its body.
"""

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

__all__ = ["artillery_command"]

_PRELOAD = Path(__file__).with_name("artillery_preload.cjs")


def artillery_command(
    path: str, program: str, *, url: str, said: dict[str, Any]
) -> tuple[list[str], dict[str, str], str]:
    """The words of the command, what its environment has besides ours, and where it runs."""
    told = {**said, "authority": urlsplit(url).netloc}
    env = {
        "DRILLMASTER_ARTILLERY": json.dumps(told),
        "NODE_OPTIONS": f'--require="{_PRELOAD}"',
        "ARTILLERY_DISABLE_TELEMETRY": "true",
        "NO_UPDATE_NOTIFIER": "1",
    }
    return [program, "run", "--target", url, path], env, str(Path(path).parent)
