"""Which gates a repository has a use for, by the names of its files, and what each of them needs to begin.

1. Names decide and no file is read: a wrong guess costs one file that a person deletes.
2. Nothing is ever overwritten, and no limit is filled in. Blanks are left for the people who answer for the numbers.
3. What a gate watches is named with it, so that a person sees at once where the guess came from.
"""

import re
import shlex
from collections.abc import Iterable
from pathlib import PurePosixPath

import msgspec

from drillmaster.rules.durable import DURABLE, place

__all__ = ["NEXT", "Use", "evidence", "next_of", "uses"]

_CONTRACTS = re.compile(
    r"(?:^|/)(?:openapi|swagger)[\w.-]*\.(?:ya?ml|json)$|\.(?:proto|avsc|graphqls?|schema\.json)$"
    r"|(?:^|/)(?:contracts|migrations|tools/schema|db/migrate|alembic/versions)/",
    re.IGNORECASE,
)
_TOOLS = re.compile(
    r"(?:^|/)(?:\.?mcp\.json|tools\.allow\.json|claude_desktop_config\.json|\.cursor/mcp\.json|\.vscode/mcp\.json)$",
    re.IGNORECASE,
)
_ORACLES = re.compile(
    r"(?:^|/)(?:tests?|spec|__tests__|fixtures|testdata)/|(?:^|/)test_[^/]+\.py$|_test\.(?:py|go)$|\.(?:test|spec)\.[cm]?[jt]sx?$"
    r"|(?:^|/)\.oracle-owners$",
    re.IGNORECASE,
)
_CANARY = re.compile(
    r"(?:^|/)(?:prometheus[\w.-]*\.ya?ml|canary[\w.-]*\.(?:ya?ml|json)|rollout[\w.-]*\.ya?ml)$|(?:^|/)flagger/",
    re.IGNORECASE,
)
_CUTOVER = re.compile(r"(?:^|/)[\w.-]*(?:cutover|dual[-_]?write)[\w.-]*\.json$", re.IGNORECASE)
_QUOTA = re.compile(r"(?:^|/)(?:guards\.(?:ya?ml|json|toml)|outbound-quotas\.json)$", re.IGNORECASE)
_AGENT = re.compile(r"(?:^|/)(?:agents?|\.agent|workspace|scratch)/", re.IGNORECASE)

NEXT: dict[str, str] = {
    "cache-keys": "list the store's keys, redis-cli --scan > keys.txt, then drillmaster gate cache-keys keys.txt --taken-at TIME",
    "canary": "drillmaster evidence new canary --prometheus URL --service NAME --artifact sha256:... --out canary-metrics.json",
    "contract": "drillmaster contract lock, commit it, then drillmaster gate contract --base origin/main",
    "cutover": "drillmaster gate cutover cutover/plan.json --base origin/main",
    "free-tier": 'drillmaster ledger open --job "JOB" --by NAME, then drillmaster gate free-tier runs',
    "imports": "name the modules that decide in its policy, commit it, then drillmaster gate imports --base origin/main",
    "leases": "drillmaster evidence new lease-lab --out lease-lab.json on the lab host, then drillmaster gate leases FILE",
    "oracle": "name oracles in .oracle-owners, commit it, then drillmaster gate oracle --base origin/main",
    "quota": "commit the guards file and the documents of its limits, then drillmaster gate quota guards.yaml --base origin/main",
    "retries": "have workers write their decisions, then drillmaster gate retries soak.jsonl",
    "tools": "have the server's answer to tools/list in tools.offered/NAME.json, drillmaster tools pin tools.offered/NAME.json "
    "> tools.allow.json, then drillmaster gate tools tools.allow.json",
    "webhook-path": "replay signed webhooks with tracing on, then drillmaster gate webhook-path spans.json",
    "workspace": "drillmaster gate workspace DIR",
}
"""What it takes to a gate's first verdict, with the command last."""
_EVIDENCE = {"cutover": "cutover/plan.json", "quota": "guards.yaml", "tools": "tools.allow.json", "workspace": "DIR"}
"""What a gate is handed, as `NEXT` has it; where the repository has one of its own, that is named."""


class Use(msgspec.Struct, frozen=True, kw_only=True):
    """A gate and the files that speak for it: how many, and the first of them."""

    gate: str
    why: str
    count: int
    first: tuple[str, ...]


def evidence(use: Use) -> str:
    """Give what the gate is handed, "" where it is handed nothing: a file or folder that spoke for it, or the usual name."""
    if use.gate == "workspace":
        found = next((match for path in use.first if (match := _AGENT.search(path))), None)
        return found.string[: found.end() - 1] if found else _EVIDENCE["workspace"]
    named = [path for path in use.first if use.gate in ("cutover", "quota") or path.endswith("tools.allow.json")]
    usual = _EVIDENCE.get(use.gate, "")
    return named[0] if usual and named else usual


def next_of(use: Use) -> str | None:
    """Give what comes next, by the names that the repository has. None: a gate that nobody begins with."""
    line, usual = NEXT.get(use.gate), _EVIDENCE.get(use.gate)
    return line.replace(usual, shlex.quote(evidence(use))) if line and usual else line


def uses(paths: Iterable[str]) -> tuple[Use, ...]:
    """List the gates that files of these names (from the root, `/` between folders) speak for, in the order of their names."""
    found: dict[str, list[str]] = {}
    for path in sorted(paths):
        for gate in _gates_of(path):
            found.setdefault(gate, []).append(path)
    return tuple(
        Use(gate=gate, why=_WHY[gate], count=len(those), first=tuple(those[:3]))
        for gate, those in sorted(found.items())
    )


_WHY = {
    "canary": "what is measured of a canary",
    "contract": "contracts with other people's code",
    "cutover": "a plan to move writes",
    "oracle": "tests and fixtures that judge code",
    "quota": "limits of partners",
    "tools": "tools that an agent may call",
    "workspace": "what an agent keeps between runs",
}


def _gates_of(path: str) -> Iterable[str]:
    for gate, pattern in (
        ("canary", _CANARY),
        ("contract", _CONTRACTS),
        ("cutover", _CUTOVER),
        ("oracle", _ORACLES),
        ("quota", _QUOTA),
        ("tools", _TOOLS),
    ):
        if pattern.search(path):
            yield gate
    # Only where an agent works: a folder `cache` or a plan for people is everywhere.
    if _AGENT.search(path) and place(PurePosixPath(path).name).kind in DURABLE:
        yield "workspace"
