"""Look at a plan, field by field and across its fields."""

import difflib
import ipaddress
import math
import re
from collections.abc import Iterator

import msgspec

from drillmaster import dialects
from drillmaster.clock import parse_rfc3339, rfc3339
from drillmaster.errors import Problem, Refused
from drillmaster.faults import make
from drillmaster.pace import arrivals_in
from drillmaster.plan import Attest, Outline, Plan
from drillmaster.policy import share_text
from drillmaster.sanity.budgets import (
    allowed_failures,
    budget_problems,
    judged_s,
    least_requests,
    planned_requests,
    total_s,
)
from drillmaster.sanity.permission import (
    empty_seats,
    header_problems,
    is_loopback,
    parse_listen,
    permission_problems,
    seat_problems,
    split_url,
)
from drillmaster.sanity.shapes import Numbers, Sanity, wrong
from drillmaster.screen import screen_text
from drillmaster.targeting import Rule, most_taken, named, on_ratio, unreached, what_is_wrong

__all__ = ["MAX_DRILL_S", "MIN_EVERY_S", "answer_problem", "check", "unnamed_seats", "window_problem"]

MAX_DRILL_S = 86_400
"""A drill is over within a day, whatever its plan says."""
MAX_IN_FLIGHT = 4_000
"""Requests that may be under way at once when nothing answers: the user's patience divided by the period."""
MIN_EVERY_S = 0.005


def check(
    plan: Plan,
    *,
    place: str,
    wall_ns: int,
    numbers: Numbers | None = None,
    rehearsal: bool = False,
    permit_host: str | None = None,
) -> Sanity:
    """Look at everything that can be known before a socket is opened.

    `place` is how the plan's file is called in messages. `numbers` None: the arithmetic of the policy is left out.
    """
    problems = [
        *_numbers(plan, place),
        *_target(plan, place),
        *_listen(plan, place),
        *_upstream(plan, place),
        *_crossed(plan, place),
        *_permission(plan, place, wall_ns, permit_host),
        *seat_problems(plan.seats.names(), place=place, rehearsal=rehearsal),
        *_texts(plan, place),
        *_window(plan, place),
        *_fault(plan, place),
    ]
    warnings: tuple[str, ...] = ()
    if not problems:
        problems += _bounds(plan, place)
        problems += [] if numbers is None else budget_problems(plan, place, numbers)
        warnings = tuple(_warnings(plan, numbers))
    return Sanity(tuple(problems), warnings)


def _numbers(plan: Plan, place: str) -> Iterator[Problem]:
    positive = {
        "/traffic/every_s": plan.traffic.every_s,
        "/traffic/time_limit_s": plan.traffic.time_limit_s,
        "/phases/baseline_s": plan.phases.baseline_s,
        "/phases/fault_s": plan.phases.fault_s,
        "/phases/recovery_s": plan.phases.recovery_s,
        "/stop/over_requests": plan.stop.over_requests,
    }
    not_negative: dict[str, float] = {
        "/fault/linger_s": plan.fault.linger_s,
        "/stop/min_free_mb": plan.stop.min_free_mb,
        "/target/expect/min_chars": plan.target.expect.min_chars,
    }
    if plan.worker is not None:
        positive["/worker/ready_s"] = plan.worker.ready_s
    if plan.target.permit is not None:
        positive["/target/permit/max_per_s"] = plan.target.permit.max_per_s
        positive["/target/permit/max_requests"] = plan.target.permit.max_requests
    if plan.spend is not None:
        positive["/spend/max_requests"] = plan.spend.max_requests
        if plan.spend.max_tokens is not None:
            positive["/spend/max_tokens"] = plan.spend.max_tokens
    for pointer, value in positive.items():
        if not (math.isfinite(value) and value > 0):
            yield wrong(
                place, pointer, value, "a finite number > 0", f"set {pointer.rsplit('/', 1)[1]} to what is meant"
            )
    for pointer, value in not_negative.items():
        if not (math.isfinite(value) and value >= 0):
            yield wrong(
                place, pointer, value, "a finite number >= 0", f"set {pointer.rsplit('/', 1)[1]} to what is meant"
            )
    ratio = plan.stop.failed_ratio
    if ratio is not None and not 0 < ratio <= 1:
        yield wrong(place, "/stop/failed_ratio", ratio, "a share, 0 < ratio <= 1", "write 50 % as 0.5, or leave it out")
    if not plan.target.expect.status:
        yield wrong(place, "/target/expect/status", "no status", "at least one", "write `status: [200]`")
    for status in plan.target.expect.status:
        if not 100 <= status <= 599:
            yield wrong(place, "/target/expect/status", status, "HTTP statuses, 100 to 599", "write `status: [200]`")


def answer_problem(pointer: str, answer: str) -> str | None:
    """What is wrong with a person's answer for a blank of the plan, by pointer; None where it will do."""
    if pointer not in ("/target/url", "/proxy/upstream"):
        return None
    parts = split_url(answer)
    if parts is None:
        return "that is no URL: it begins with http:// or https:// and names a host"
    if parts.username is not None or parts.password is not None:
        return "a URL without a user or password in it: a plan is evidence"
    if pointer == "/proxy/upstream" and parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        return "https, please: over http the agent's key would go in the clear"
    return None


def _target(plan: Plan, place: str) -> Iterator[Problem]:
    target = plan.target
    parts = split_url(target.url)
    if parts is None:
        yield wrong(
            place,
            "/target/url",
            repr(target.url)[:120],
            "the agent's own http(s) URL",
            "write `url: http://127.0.0.1:8000/answer`",
        )
    elif parts.username is not None or parts.password is not None:
        yield wrong(
            place, "/target/url", "a user or password in the URL", "none", "put credentials into /target/headers"
        )
    if not re.fullmatch(r"[A-Z]+", target.method):
        yield wrong(
            place, "/target/method", repr(target.method)[:40], "an HTTP method in capitals", "write `method: POST`"
        )
    yield from header_problems(target.headers, place=place, pointer="/target/headers")
    places = target.url + (target.body or "")
    if "{payload}" in places and not target.payloads:
        yield wrong(
            place,
            "/target/payloads",
            "none",
            "at least one, since {payload} is used",
            "add `payloads:` with some prompts",
        )
    if target.payloads and "{payload}" not in places:
        yield wrong(
            place,
            "/target/payloads",
            "a set that nothing uses",
            "`{payload}` in url or body",
            "put {payload} where it goes",
        )
    for number, payload in enumerate(target.payloads):
        if not payload.strip():
            yield wrong(place, f"/target/payloads/{number}", "an empty prompt", "text", "remove the line")
    pointer = target.expect.pointer
    if pointer is not None and (not pointer.startswith("/") or re.search("~(?![01])", pointer)):
        yield wrong(
            place, "/target/expect/pointer", repr(pointer)[:80], "a JSON pointer", "write it as `/choices/0/text`"
        )
    for name in ("not_matching", "fallback_matching"):
        pattern = getattr(target.expect, name)
        try:
            re.compile(pattern or "")
        except re.error as error:
            yield wrong(
                place,
                f"/target/expect/{name}",
                f"a pattern that is none: {error}",
                "a regular expression",
                "mend it",
            )


def _listen(plan: Plan, place: str) -> Iterator[Problem]:
    parsed = parse_listen(plan.proxy.listen)
    if parsed is None:
        yield wrong(
            place,
            "/proxy/listen",
            repr(plan.proxy.listen)[:80],
            "IP:PORT",
            "write `listen: 127.0.0.1:8081`, or the address of the bridge",
        )
    elif parsed[0] != "localhost" and ipaddress.ip_address(parsed[0]).is_unspecified:
        yield wrong(
            place,
            "/proxy/listen",
            f"{plan.proxy.listen}: every address of the machine",
            "the one address where the agent looks",
            "write the bridge's address, such as `listen: 172.17.0.1:8081`",
        )


def _crossed(plan: Plan, place: str) -> Iterator[Problem]:
    """Target, proxy and upstream are three places; two of them in one would have the drill talk to itself."""
    listen = parse_listen(plan.proxy.listen)
    if listen is None or listen[1] == 0:
        return
    for pointer, url in (("/target/url", plan.target.url), ("/proxy/upstream", plan.proxy.upstream or "")):
        parts = split_url(url)
        if parts is None or parts.hostname is None:
            continue
        port = parts.port or (443 if parts.scheme == "https" else 80)
        same = parts.hostname == listen[0] or (is_loopback(parts.hostname) and is_loopback(listen[0]))
        if same and port == listen[1]:
            yield wrong(
                place, pointer, f"the address of the proxy, {plan.proxy.listen}", "another", "choose another port"
            )


def _upstream(plan: Plan, place: str) -> Iterator[Problem]:
    upstream = plan.proxy.upstream
    if upstream is None:
        yield Refused(
            f"{place}: /proxy/upstream",
            found="nothing: a proxy that is dead from the start",
            wanted="the real endpoint; without it there is no baseline and no recovery",
            remedy="write `upstream: https://api.openai.com` (or your provider's base URL)",
        )
        return
    parts = split_url(upstream)
    if parts is None or parts.query or parts.fragment:
        yield wrong(
            place,
            "/proxy/upstream",
            repr(upstream)[:120],
            "an http(s) base URL",
            "write `upstream: https://api.openai.com`",
        )
    elif parts.username is not None or parts.password is not None:
        yield wrong(
            place, "/proxy/upstream", "a user or password in the URL", "none: the agent sends its own key", "remove it"
        )
    elif parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        yield wrong(
            place, "/proxy/upstream", "http to another host: the agent's key in the clear", "https", "write https://"
        )


def _permission(plan: Plan, place: str, wall_ns: int, permit_host: str | None) -> Iterator[Problem]:
    every_s = plan.traffic.every_s
    yield from permission_problems(
        plan.target.url,
        plan.target.permit,
        place=place,
        wall_ns=wall_ns,
        permit_host=permit_host,
        total_s=total_s(plan),
        per_s=1 / every_s if every_s > 0 else 0.0,
        requests=planned_requests(plan) if plan.target.permit is not None and every_s > 0 else 0,
        calmer="raise every_s",
    )


def unnamed_seats(plan: Plan) -> tuple[str, ...]:
    """The seats of a plan that nobody holds; any of them makes the run a rehearsal."""
    return empty_seats(plan.seats.names())


def _texts(plan: Plan, place: str) -> Iterator[Problem]:
    if not plan.service.strip() or re.search(r"[\x00-\x1f\x7f]", plan.service):
        yield wrong(place, "/service", repr(plan.service)[:60], "the service's name, one line", "name it")
    if plan.worker is not None and plan.timeline is not None:
        yield wrong(
            place,
            "/timeline",
            "one, beside a worker",
            "one of them: a worker is told where to write",
            "remove timeline",
        )
    if plan.worker is not None and (not plan.worker.cmd or not plan.worker.cmd[0]):
        yield wrong(place, "/worker/cmd", "nothing", "a program and its arguments", "write `cmd: [python3, agent.py]`")
    for line in ("quiet_window_agreed", "on_call_told", "status_note_drafted"):
        attest: Attest | None = getattr(plan.preflight, line)
        if attest is None:
            continue
        if not attest.by.strip():
            yield wrong(place, f"/preflight/{line}/by", "nobody", "who attests it", "fill in by")
        if parse_rfc3339(attest.at) is None:
            yield wrong(
                place,
                f"/preflight/{line}/at",
                repr(attest.at)[:40],
                "RFC 3339 with a zone",
                "write `at: 2026-12-01T09:30:00Z`",
            )


def _window(plan: Plan, place: str) -> Iterator[Problem]:
    if plan.window is None:
        return
    start_ns, end_ns = parse_rfc3339(plan.window.start), parse_rfc3339(plan.window.end)
    for side, at_ns in (("start", start_ns), ("end", end_ns)):
        if at_ns is None:
            yield wrong(
                place,
                f"/window/{side}",
                repr(getattr(plan.window, side))[:40],
                "RFC 3339 with a zone",
                f"write `{side}: 2026-12-01T09:00:00Z`",
            )
    if start_ns is not None and end_ns is not None and start_ns >= end_ns:
        yield wrong(place, "/window", "an end that is not after the start", "start < end", "swap them")


def window_problem(plan: Outline, *, place: str, from_ns: int, until_ns: int) -> Refused | None:
    """Whether a fault from `from_ns` to `until_ns` (wall time) stays inside the agreed window; None when it does."""
    if plan.window is None:
        return None
    start_ns, end_ns = parse_rfc3339(plan.window.start), parse_rfc3339(plan.window.end)
    if start_ns is not None and end_ns is not None and start_ns <= from_ns and until_ns <= end_ns:
        return None
    return Refused(
        f"{place}: /window",
        found=f"a fault from {rfc3339(from_ns, digits=0)} to {rfc3339(until_ns, digits=0)}",
        wanted=f"one inside {plan.window.start} .. {plan.window.end}",
        remedy="run it inside the window, or agree on another",
    )


def _bounds(plan: Plan, place: str) -> Iterator[Problem]:
    every_s = plan.traffic.every_s
    if every_s < MIN_EVERY_S:
        yield wrong(
            place,
            "/traffic/every_s",
            f"{every_s:g}",
            f"at least {MIN_EVERY_S:g} s: a drill is no load test",
            "raise it",
        )
    for name, phase_s in msgspec.structs.asdict(plan.phases).items():
        if phase_s < every_s:
            yield wrong(
                place,
                f"/phases/{name}",
                f"{phase_s:g} s",
                f"at least one traffic period, {every_s:g} s",
                f"raise {name}",
            )
    if total_s(plan) > MAX_DRILL_S:
        yield wrong(place, "/phases", f"{total_s(plan):g} s in all", f"at most {MAX_DRILL_S} s", "shorten the phases")
    if plan.traffic.time_limit_s / every_s > MAX_IN_FLIGHT:
        yield wrong(
            place,
            "/traffic",
            f"{plan.traffic.time_limit_s / every_s:.0f} requests in flight when nothing answers",
            f"at most {MAX_IN_FLIGHT}",
            "raise every_s or lower time_limit_s",
        )
    if plan.fault.linger_s > plan.phases.recovery_s:
        yield wrong(
            place, "/fault/linger_s", f"{plan.fault.linger_s:g} s", "less than the recovery phase", "lower linger_s"
        )
    upstream = arrivals_in(plan.phases.baseline_s, every_s) + arrivals_in(plan.phases.recovery_s, every_s)
    if plan.spend is not None and plan.spend.max_requests < upstream:
        yield wrong(
            place,
            "/spend/max_requests",
            plan.spend.max_requests,
            f"at least {upstream}, which baseline and recovery alone send to the real endpoint",
            f"set it to {2 * upstream}, or raise every_s",
        )


def _fault(plan: Plan, place: str) -> Iterator[Problem]:
    """The fault, or the rules: each can be made, and each can meet somebody while it is on."""
    fault = plan.fault
    if fault.rules and (fault.tag is not msgspec.UNSET or fault.params):
        yield wrong(
            place, "/fault", "rules beside mode or params", "one of the two", "move mode and params into a rule"
        )
        return
    scopes: dict[str, str] = {}
    for at, rule in enumerate(fault.wanted):
        pointer = f"/fault/rules/{at}" if fault.rules else "/fault"
        try:
            scopes[rule.tag] = make(rule.tag, rule.params).scope
        except Problem as problem:
            yield Problem(
                f"{place}: {pointer}: {problem.place}",
                found=problem.found,
                wanted=problem.wanted,
                remedy=problem.remedy,
            )
    if len(scopes) < len({rule.tag for rule in fault.wanted}):
        return
    for one in what_is_wrong(fault.rules, scopes.__getitem__, "/fault/rules"):
        yield wrong(place, one.pointer, one.found, one.wanted, one.remedy)
    made = [make(rule.tag, rule.params) for rule in fault.rules]
    for one in unreached(fault.rules, made, "/fault/rules"):
        yield wrong(place, one.pointer, one.found, one.wanted, one.remedy)
    for at, rule in enumerate(fault.rules):
        yield from _rule(fault.rules, at, place)
        if rule.schedule and min(start for start, _ in rule.schedule) >= plan.phases.fault_s:
            yield wrong(
                place,
                f"/fault/rules/{at}/schedule",
                f"a first span from {min(start for start, _ in rule.schedule):g} s on",
                f"one that begins within the fault phase of {plan.phases.fault_s:g} s",
                "seconds count from the injection",
            )


_CREDENTIALS = frozenset(("authorization", "api-key", "cookie", "proxy-authorization", "x-api-key", "x-goog-api-key"))


def _rule(rules: tuple[Rule, ...], at: int, place: str) -> Iterator[Problem]:
    """What no request could ever fit, and secrets: a plan is kept in the run."""
    rule, pointer = rules[at], f"/fault/rules/{at}"
    when, fault = rule.when, make(rule.tag, rule.params)
    for name, pattern in when.header.items():
        whole = name.lower() in _CREDENTIALS and "*" not in pattern
        if whole or screen_text(pattern) != pattern:
            yield wrong(
                place,
                f"{pointer}/when/header/{name}",
                "what looks like a credential",
                "none: plan and evidence are kept",
                'match it by `key`, its hash (printf %s "$OPENAI_API_KEY" | sha256sum | cut -c1-16), or by a pattern: "Bearer *"',
            )
    if when.dialect is not None and when.dialect not in dialects.names():
        near = difflib.get_close_matches(when.dialect, dialects.names(), 1)
        remedy = f"Did you mean {near[0]}?" if near else "see the attempts' lines of a run: dialect"
        yield wrong(
            place, f"{pointer}/when/dialect", repr(when.dialect), f"one of {', '.join(dialects.names())}", remedy
        )
    for field, said, need in (("stream", False, "stream"), ("stream", True, "whole"), ("tools", False, "tools")):
        if need in fault.needs and getattr(when, field) is said:
            yield wrong(
                place,
                f"{pointer}/when/{field}",
                str(said).lower(),
                f"what {rule.tag} can act on",
                f"take {field} out, or write {field}: {str(not said).lower()}",
            )


def _warnings(plan: Plan, numbers: Numbers | None) -> Iterator[str]:
    empty = unnamed_seats(plan)
    if empty:
        yield f"nobody is named as {', '.join(empty)}: the run is stamped REHEARSAL"
    if len(set(plan.target.payloads)) < 2 and "{nonce}" not in plan.target.url + (plan.target.body or ""):
        yield "every request asks the same thing: a cache may answer it, and a fallback that fails on some is not seen"
    host = (parse_listen(plan.proxy.listen) or ("", 0))[0]
    if not is_loopback(host):
        yield f"the proxy listens on {plan.proxy.listen}: who reaches that address reaches the real endpoint"
    due = arrivals_in(plan.phases.fault_s, plan.traffic.every_s)
    for rule in named(plan.fault.rules):
        if (likely := most_taken(rule, round(due * on_ratio(rule, plan.phases.fault_s)))) < 1:
            yield (
                f"rule {rule.name} would take {likely:.2g} of the {due} user requests of the fault phase: a rule that meets nobody "
                "refuses the run"
            )
    if any(rule.tag == "hang" for rule in plan.fault.wanted):
        yield (
            "mode hang: openai and anthropic wait 3 x 600 s by default, requests and others for ever; "
            "without a time limit of its own the agent cannot fall back within a minute"
        )
    if plan.stop.failed_ratio is not None and plan.stop.over_requests > arrivals_in(
        plan.phases.fault_s, plan.traffic.every_s
    ):
        yield f"stop.over_requests {plan.stop.over_requests} is more than the fault window holds: it stops late"
    if plan.traffic.time_limit_s >= plan.phases.fault_s:
        yield (
            f"users wait {plan.traffic.time_limit_s:g} s and the fault lasts {plan.phases.fault_s:g} s: nobody gives up "
            "before it is over, so a call that hangs is seen to succeed; lower traffic.time_limit_s, or compress less"
        )
    if numbers is None:
        return
    window_s = judged_s(plan, numbers)
    requests = arrivals_in(window_s, plan.traffic.every_s)
    allowed = allowed_failures(numbers.max_failed_ratio, requests)
    cost = arrivals_in(min(numbers.max_fallback_s, plan.phases.fault_s), plan.traffic.every_s)
    if cost > allowed:
        yield (
            f"limits that exclude each other: a fallback that takes its whole {numbers.max_fallback_s:g} s costs "
            f"{cost} requests at one in {plan.traffic.every_s:.3g} s, and {share_text(numbers.max_failed_ratio)} of the "
            f"{numbers.failed_window} window's {requests} allows {allowed}: "
            f"in effect the fallback has {allowed * plan.traffic.every_s:.3g} s"
        )
    if plan.traffic.time_limit_s >= numbers.max_fallback_s:
        yield (
            f"the traffic waits {plan.traffic.time_limit_s:g} s for an answer, and the fallback has "
            f"{numbers.max_fallback_s:g} s: a user of yours who gives up sooner is not played"
        )
    if requests < least_requests(numbers.max_failed_ratio) + 2:
        yield f"{requests} requests in the {numbers.failed_window} window are just enough: one late, and it is refused"
