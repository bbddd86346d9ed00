"""What a cutover plan has to say by itself: the article's eleven rules in its order, and what they leave open.

1. Whoever is named is a person by name (`rules.free_lane`). A roster, where the gate has one, is asked besides.
2. Percents are a ladder: it begins at 1 to 5, has steps of at least 1, and is over before it is 100; before the freeze
   the old path still carries half of the traffic, or a halt would be a second cutover.
3. A budget of 0 is a budget: the first error halts. It is measured as a census.
4. Every halt is `halt`. Anything else (`retry`, `continue`, `warn`) is another plan.
5. A window has two ends in UTC, in order, from a minute to a week apart, within a year of now. Limits of a policy are
   narrower; these only tell a window from a slip of the pen.
"""

from collections.abc import Iterator

import msgspec

from drillmaster.clock import rfc3339
from drillmaster.policy import seconds_text
from drillmaster.rules.cutover_plan import Plan
from drillmaster.rules.free_lane import free_lane, human, pinned_spec, shaky_runtime
from drillmaster.strict import shown
from drillmaster.verdict import Absent, Check, Exact, Role, Status

__all__ = ["ARTICLE", "MESSAGES", "Bounds", "plan_checks", "say", "span_text"]

YEAR_S = 366 * 86_400.0

MESSAGES: dict[str, str] = {
    "timed-fields-free-lane": "timed_fields must not come from a free lane",
    "timed-fields-human": "timed_fields need a pinned human owner",
    "rollback-owner": "rollback_owner must be a named human",
    "initial-percent": "initial_percent must sit between 1 and 5",
    "error-budget": "error_budget_ppm must be pinned at or below 100",
    "old-writer": "old writer must survive the first window",
    "dual-write": "dual_write_required must stay true during cutover",
    "checksum-halt": "checksum mismatch must halt, not retry",
    "key-format": "idempotency rules must be human-pinned",
    "key-author": "idempotency rules must be human-pinned",
    "free-server-forbidden": "controller must forbid a free server runtime",
    "controller-runtime": "controller runtime must not be a free server",
}
"""The article's own words for each of its rules, which scripts may grep."""


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """What the numbers of a plan are held to. Percents, errors in a million, seconds."""

    max_initial_percent: int
    max_step_percent: int
    max_percent_before_freeze: int
    max_error_budget_ppm: int
    min_window_s: float
    max_window_s: float


ARTICLE = Bounds(
    max_initial_percent=5,
    max_step_percent=50,
    max_percent_before_freeze=50,
    max_error_budget_ppm=100,
    min_window_s=60.0,
    max_window_s=7 * 86_400.0,
)
"""5 and 100 are the article's; the others are rules 2 and 5."""


def span_text(seconds: float) -> str:
    """Write a span as people say it: days and hours where it is that long."""
    for each_s, word in ((86_400, "days"), (3600, "h")):
        if seconds >= 2 * each_s:
            return f"{seconds / each_s:.3g} {word}"
    return seconds_text(seconds)


def say(
    id_: str,
    title: str,
    status: Status,
    *,
    role: Role = "judgement",
    why: str = "",
    remedy: str = "",
    observed: float | None = None,
    absent: str = "",
    limit: float | str | None = None,
    unit: str = "",
) -> Check:
    """Make a check. Its reason and remedy are told where it did not pass."""
    bad = status != "pass"
    measure = Exact(observed) if observed is not None else Absent(absent) if absent and bad else None
    return Check(
        id=id_,
        role=role,
        status=status,
        title=title,
        observed=measure,
        limit=limit,
        unit=unit,
        why=why if bad else "",
        remedy=remedy if bad else "",
    )


def plan_checks(plan: Plan, bounds: Bounds, *, now_ns: int) -> Iterator[Check]:
    """Judge what a plan says by itself. A value that is not there is refused, and so is the plan."""
    yield _shape(plan)
    yield _named(plan)
    yield from _people(plan)
    yield from _percents(plan, bounds)
    yield _is("old-writer", "/window/old_writer_delete_same_window", plan.old_writer_delete_same_window, False)
    yield _is("dual-write", "/window/dual_write_required", plan.dual_write_required, True)
    yield _is("checksum-halt", "/halt/on_checksum_mismatch", plan.on_checksum_mismatch, "halt")
    yield _is("retry-storm-halt", "/halt/on_retry_storm", plan.on_retry_storm, "halt")
    field = "on_free_lane_author_for_timed_fields"
    yield _is("free-lane-halt", f"/halt/{field}", plan.on_free_lane_author_for_timed_fields, "halt")
    yield from _keys(plan)
    yield _is("free-server-forbidden", "/controller/free_server_forbidden", plan.free_server_forbidden, True)
    why = shaky_runtime(plan.runtime)
    yield say(
        "controller-runtime",
        "the controller runs where it stays",
        _status(plan.runtime, not why),
        why=f"/controller/runtime: found {shown(plan.runtime)}, {why}",
        remedy="name the pinned host or path that the controller runs on, and that somebody owns",
    )
    yield _window(plan, bounds, now_ns)


def _shape(plan: Plan) -> Check:
    return say(
        "plan-shape",
        "the plan has all of its fields, of their types, and no others",
        "refused" if plan.faults else "pass",
        role="admission",
        why="; ".join(map(str, plan.faults[:12]))
        + (f"; and {len(plan.faults) - 12} more" if len(plan.faults) > 12 else ""),
        remedy="; ".join(dict.fromkeys(fault.remedy for fault in plan.faults[:4])),
    )


def _named(plan: Plan) -> Check:
    given = {"/plan_id": plan.plan_id, "/service": plan.service, "/authors/draft": plan.draft}
    bad = [name for name, value in given.items() if value is not None and not any(c.isalnum() for c in value)]
    missing = any(value is None for value in given.values())
    return say(
        "named",
        "the plan has an id and a service, and says who drafted it",
        "fail" if bad else "refused" if missing else "pass",
        why=", ".join(f"{name} says nothing" for name in bad) or "one of them is not there",
        remedy="fill in plan_id, service and authors.draft; the draft may be a model's",
    )


def _people(plan: Plan) -> Iterator[Check]:
    timed = plan.timed_fields
    yield say(
        "timed-fields-free-lane",
        "the timed fields come from no free lane",
        _status(timed, timed is not None and not free_lane(timed)),
        why=f"/authors/timed_fields: found {shown(timed)}",
        remedy="have a person set percents and window, and name them: human:NAME",
    )
    for id_, pointer, value, title in (
        ("timed-fields-human", "/authors/timed_fields", timed, "a named person set the timed fields"),
        ("rollback-owner", "/authors/rollback_owner", plan.rollback_owner, "a named person owns the rollback"),
    ):
        _, why = human(value)
        yield say(
            id_,
            title,
            _status(value, not why),
            why=f"{pointer}: found {shown(value)}, {why}",
            remedy="name one person: human:NAME, as the roster has it",
        )


def _percents(plan: Plan, bounds: Bounds) -> Iterator[Check]:
    first, step, last, ppm = (
        plan.initial_percent,
        plan.step_percent,
        plan.max_percent_before_freeze,
        plan.error_budget_ppm,
    )
    yield say(
        "initial-percent",
        f"traffic begins at 1 to {bounds.max_initial_percent} %",
        _status(first, first is not None and 1 <= first <= bounds.max_initial_percent),
        observed=first,
        absent="no whole number stands there",
        limit=bounds.max_initial_percent,
        unit="%",
        remedy="begin with a share that the error budget can lose",
    )
    wrong = []
    if first is not None and step is not None and last is not None:
        if step < 1:
            wrong.append(f"a step of {step} %")
        if step > bounds.max_step_percent:
            wrong.append(f"a step of {step} %, at most {bounds.max_step_percent}")
        if last > bounds.max_percent_before_freeze:
            wrong.append(f"{last} % before the freeze, at most {bounds.max_percent_before_freeze}")
        if last < first:
            wrong.append(f"{last} % before the freeze, after it began at {first}")
        elif last > first and first + step > last:
            wrong.append(f"from {first} % one step of {step} goes past {last} %")
        elif last == first and step > bounds.max_initial_percent:
            wrong.append(f"a step of {step} %, and no room for one")
    rungs = plan.ladder()
    shows = f": {', '.join(map(str, rungs[:12]))} %" if rungs and len(rungs) <= 12 else ""
    yield say(
        "percent-ladder",
        f"percents before the freeze are a ladder{shows}",
        "refused" if None in (first, step, last) else "fail" if wrong else "pass",
        why="; ".join(wrong) or "one of them is not there",
        remedy="set step_percent and max_percent_before_freeze so that each rung can be watched and left again",
    )
    yield say(
        "error-budget",
        f"the error budget is pinned, at most {bounds.max_error_budget_ppm} in a million",
        _status(ppm, ppm is not None and 0 <= ppm <= bounds.max_error_budget_ppm),
        observed=ppm,
        absent="no whole number stands there",
        limit=bounds.max_error_budget_ppm,
        unit="ppm",
        remedy="copy the budget from the SLO; 0 halts at the first error",
    )


def _keys(plan: Plan) -> Iterator[Check]:
    _, why = pinned_spec(plan.key_format)
    yield say(
        "key-format",
        "the format of idempotency keys is a specification of people",
        _status(plan.key_format, not why),
        why=f"/idempotency/key_format: found {shown(plan.key_format)}, {why}",
        remedy="name the specification: human-pinned:NAME",
    )
    _, why = human(plan.author)
    yield say(
        "key-author",
        "a named person wrote it",
        _status(plan.author, not why),
        why=f"/idempotency/author: found {shown(plan.author)}, {why}",
        remedy="name one person: human:NAME, as the roster has it",
    )


_TITLES = {
    "old-writer": "the old writer outlives the window",
    "dual-write": "both stores are written until the end",
    "checksum-halt": "a checksum that differs halts",
    "retry-storm-halt": "a storm of retries halts",
    "free-lane-halt": "timed fields from a free lane halt",
    "free-server-forbidden": "a free server is forbidden to the controller",
}


def _is(id_: str, pointer: str, found: bool | str | None, wanted: bool | str) -> Check:
    text = wanted if isinstance(wanted, str) else str(wanted).lower()
    return say(
        id_,
        _TITLES[id_],
        _status(found, found == wanted),
        why=f"{pointer}: found {shown(found)}, wanted {text}",
        remedy=f"write {pointer.rpartition('/')[2]}: {text}; a plan that needs anything else is another plan",
    )


def _window(plan: Plan, bounds: Bounds, now_ns: int) -> Check:
    start, end = plan.start_ns, plan.end_ns
    wrong = [
        f"/window/{name}: found {shown(text)}, wanted RFC 3339 in UTC, 2026-09-20T02:00:00Z"
        for name, text, value in (
            ("freeze_start_utc", plan.freeze_start_utc, start),
            ("freeze_end_utc", plan.freeze_end_utc, end),
        )
        if text is not None and value is None
    ]
    length_s = None
    if start is not None and end is not None:
        length_s = (end - start) / 1e9
        if length_s <= 0:
            wrong.append("it ends before it begins" if length_s else "it ends when it begins")
        elif not bounds.min_window_s <= length_s <= bounds.max_window_s:
            least, most = span_text(bounds.min_window_s), span_text(bounds.max_window_s)
            wrong.append(f"it is {span_text(length_s)} long, wanted {least} to {most}")
        if (start - now_ns) / 1e9 > YEAR_S or (now_ns - end) / 1e9 > YEAR_S:
            wrong.append(f"it is more than a year from {rfc3339(now_ns, digits=0)}")
    missing = plan.freeze_start_utc is None or plan.freeze_end_utc is None
    shows = f": {plan.freeze_start_utc} to {plan.freeze_end_utc}" if length_s is not None and not wrong else ""
    return say(
        "freeze-window",
        f"the freeze is a window that people can keep{shows}",
        "fail" if wrong else "refused" if missing else "pass",
        why="; ".join(wrong) or "one of its ends is not there",
        remedy="write both ends in UTC, in the order they come: freeze_start_utc, freeze_end_utc",
    )


def _status(value: object, holds: bool) -> Status:
    """What is not there cannot be judged; the plan's shape says so too."""
    return "refused" if value is None else "pass" if holds else "fail"
