"""The state as a flagd file, for programs that read flags from one.

flagd's own targeting draws lots by targeting key: the same key meets the same, so a retry of one mission does not recover
there. What a file cannot say (`first`, `every`) is written as off, and told in the flag's metadata: a flag that meets
nobody is seen in the evidence, one that meets everybody would be taken for the drill.
"""

from typing import Any

import msgspec

from drillmaster.flags.board import Board

__all__ = ["SCHEMA", "flagd"]

SCHEMA = "https://flagd.dev/schema/v0/flags.json"


def flagd(board: Board) -> dict[str, Any]:
    """The document, with the live state."""
    flags: dict[str, Any] = {}
    for flag in board.registry.flags:
        on = board.on.get(flag.name)
        killed = flag.name in board.killed
        metadata: dict[str, Any] = {"kind": flag.kind, "owner": flag.owner}
        entry: dict[str, Any] = {
            "state": "ENABLED",
            "variants": {"on": True, "off": False},
            "defaultVariant": "on" if killed or on is not None else "off",
            "metadata": metadata,
        }
        if on is not None:
            for name, value in msgspec.structs.asdict(on.shape).items():
                if isinstance(value, bool | int | float | str):
                    metadata[name] = value
            if not killed and (on.aim.first is not None or (on.aim.every or 1) > 1):
                entry["defaultVariant"] = "off"
                metadata["unexpressed"] = on.aim.words
            elif not killed and on.aim.share is not None and on.aim.share < 1:
                parts = max(1, round(on.aim.share * 1_000))
                entry["targeting"] = {"fractional": [["on", parts], ["off", 1_000 - parts]]}
        flags[flag.name] = entry
    return {"$schema": SCHEMA, "flags": flags}
