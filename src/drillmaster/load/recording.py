"""What the manifest of an interview says before it begins."""

from pathlib import Path
from typing import Any

import msgspec

from drillmaster import strict
from drillmaster.clock import rfc3339
from drillmaster.intake.change import authors_of, change_of
from drillmaster.load.manifest import InterviewManifest
from drillmaster.load.preparing import Ready
from drillmaster.load.process import Team
from drillmaster.load.sharing import shared
from drillmaster.run.folder import Folder, versions
from drillmaster.screen import screen_text, screen_url

__all__ = ["manifest_of"]


def manifest_of(
    ready: Ready,
    folder: Folder,
    team: Team,
    addresses: tuple[str, ...],
    *,
    base: Path,
    plan_file: Path | None,
    runs: Path,
) -> InterviewManifest:
    """Word it. `base`: where the plan lies, whose commit is recorded; what changes below `runs` is no change of it.

    `plan_file` None: the plan is a command line, which nobody wrote but whoever typed it.
    """
    plan = ready.plan
    record: dict[str, Any] = msgspec.to_builtins(plan)
    target = record["target"]
    target["headers"] = dict.fromkeys(target["headers"], "(not recorded)")
    target["url"] = screen_url(target["url"])
    target["prompt"] = screen_text(target["prompt"])
    change = change_of(base.absolute(), exclude=[runs.absolute()])
    permit = plan.target.permit
    written = [] if plan_file is None else [plan_file]
    written += [] if plan.target.payloads is None else [base / plan.target.payloads]
    return InterviewManifest(
        run=folder.run,
        job=plan.job,
        started_at=rfc3339(folder.wall0_ns, digits=9),
        mono0_ns=str(folder.mono0_ns),
        seed=plan.seed,
        plan=record,
        plan_sha256=strict.digest(msgspec.to_builtins(plan)),
        url=ready.url,
        addresses=addresses,
        payload_sha256=ready.payload_sha256,
        payloads=len(ready.shot.payloads),
        payload=screen_text(ready.shot.payloads[0])[:2_000],
        steps=tuple(
            {"label": step.label, "kind": step.kind, "callers": step.callers, "calls": step.calls}
            | ({} if step.seconds is None else {"seconds": step.seconds})
            for step in ready.steps
        ),
        engines=team.record() if team.size > 1 else {},
        shares=_shares(ready, team.size),
        idle_s=plan.idle_s,
        time_limit_s=plan.timeout_s,
        versions=versions(),
        seats=plan.seats.names(),
        stamps=ready.stamps,
        code=None if change is None else {"commit": change.commit, "dirt_sha256": change.dirt_sha256},
        authors=None if plan_file is None else authors_of(written),
        permission={} if permit is None else msgspec.to_builtins(permit),
    )


def _shares(ready: Ready, engines: int) -> tuple[dict[str, Any], ...]:
    """Who does what, of the steps that several engines share."""
    steps = ready.steps[1:]
    if engines == 1:
        return ()
    by_engine = shared(steps, engines, first_call=1, seed=ready.plan.seed, shot=ready.shot)
    return tuple(
        {
            "label": step.label,
            "callers": [mine[at].callers for mine in by_engine],
            "calls": [mine[at].calls for mine in by_engine],
        }
        for at, step in enumerate(steps)
    )
