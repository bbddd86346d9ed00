"""What a baseline shows before anything is injected: that the fault which comes will let this agent's requests pass.

It is said, and no more than that: an agent may ask otherwise later. What was met decides, and the gate says why nobody was.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from drillmaster import unmet
from drillmaster.outcomes import PROBE_TRACE
from drillmaster.targeting import Rule, named

__all__ = ["forewarnings"]


class _Came(msgspec.Struct, frozen=True):
    dialect: str
    model: str | None = None
    stream: bool | None = None


def forewarnings(rules: Sequence[Rule], rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Name each rule whose fault strikes nothing of what came, by the lines of the proxy so far."""
    came = []
    for row in rows:
        if row.get("event") == "attempt" and not str(row.get("trace") or "").startswith(PROBE_TRACE):
            try:
                came.append(msgspec.convert(row, _Came))
            except msgspec.ValidationError:
                continue
    for rule in named(tuple(rules)):
        spared = unmet.spared(rule.tag, came, rule, when="so far")
        if spared is not None:
            which = f"rule {rule.name}: " if len(rules) > 1 else ""
            yield f"warning: {which}{spared.why}; one that meets nobody refuses the drill: {spared.remedy}"
