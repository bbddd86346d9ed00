"""Whether a plan makes sense, and its arithmetic against the policy. Pure: a plan in, problems and warnings out.

1. Load and faults go to loopback, unless the plan names the host, the owner who allowed it, until when and how much,
   and the command line repeats the host. The name is judged here; the connected address is judged at each connect.
2. One person, one seat. Seats that nobody holds make the run a rehearsal; one name in two seats is refused.
3. A budget of one in N needs N requests to be told at all. A budget in seconds must fit into its window.
4. Compression divides phases, the times of rules and the traffic period. Budgets and the user's patience stay in seconds:
   they are facts about people and clients, and do not shrink with a rehearsal.
5. What cannot work is a problem and is refused before anything starts; what can but should not is a warning.
"""

import difflib
import ipaddress
import math
import re
import unicodedata
from collections.abc import Iterator, Mapping
from datetime import date
from typing import Literal
from urllib.parse import SplitResult, urlsplit

import msgspec

from drillmaster import dialects
from drillmaster.clock import parse_rfc3339, rfc3339
from drillmaster.errors import Problem, Refused
from drillmaster.faults import make
from drillmaster.pace import arrivals_in
from drillmaster.plan import Attest, Permit, Phases, Plan, Spend
from drillmaster.policy import share_text
from drillmaster.screen import screen_text
from drillmaster.targeting import Rule, faster, most_taken, named, on_ratio, unreached, what_is_wrong

__all__ = [
    "Numbers",
    "Sanity",
    "allowed_failures",
    "answer_problem",
    "check",
    "compress",
    "default_spend",
    "empty_seats",
    "fill_in",
    "fitting_factor",
    "header_problems",
    "is_loopback",
    "least_requests",
    "parse_factor",
    "parse_listen",
    "permission_problems",
    "planned_requests",
    "seat_problems",
    "split_url",
    "unnamed_seats",
    "window_problem",
]

MAX_DRILL_S = 86_400
"""A drill is over within a day, whatever its plan says."""
MAX_IN_FLIGHT = 4_000
"""Requests that may be under way at once when nothing answers: the user's patience divided by the period."""
MIN_EVERY_S = 0.005
LEAST_PHASE_S = 10.0
"""How short `--compress max` lets a phase become."""
MAX_FITTING = 30
"""How many times its planned rate `--compress max` asks of the real endpoint, at most."""


class Numbers(msgspec.Struct, frozen=True, kw_only=True):
    """What the arithmetic needs to know of the policy; its caller reads them there, they have no defaults."""

    max_failed_ratio: float
    failed_window: Literal["fault", "run"]
    max_fallback_s: float
    max_recovery_s: float | None = None


class Sanity(msgspec.Struct, frozen=True):
    """What is wrong with a plan: what stops the drill, and what a person should have heard before it."""

    problems: tuple[Problem, ...]
    warnings: tuple[str, ...]


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
        problems += [] if numbers is None else _arithmetic(plan, place, numbers)
        warnings = tuple(_warnings(plan, numbers))
    return Sanity(tuple(problems), warnings)


def _wrong(place: str, pointer: str, found: object, wanted: str, remedy: str) -> Problem:
    return Problem(f"{place}: {pointer}", found=str(found), wanted=wanted, remedy=remedy)


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
            yield _wrong(
                place, pointer, value, "a finite number > 0", f"set {pointer.rsplit('/', 1)[1]} to what is meant"
            )
    for pointer, value in not_negative.items():
        if not (math.isfinite(value) and value >= 0):
            yield _wrong(
                place, pointer, value, "a finite number >= 0", f"set {pointer.rsplit('/', 1)[1]} to what is meant"
            )
    ratio = plan.stop.failed_ratio
    if ratio is not None and not 0 < ratio <= 1:
        yield _wrong(
            place, "/stop/failed_ratio", ratio, "a share, 0 < ratio <= 1", "write 50 % as 0.5, or leave it out"
        )
    if not plan.target.expect.status:
        yield _wrong(place, "/target/expect/status", "no status", "at least one", "write `status: [200]`")
    for status in plan.target.expect.status:
        if not 100 <= status <= 599:
            yield _wrong(place, "/target/expect/status", status, "HTTP statuses, 100 to 599", "write `status: [200]`")


def split_url(url: str) -> SplitResult | None:
    """Split a URL; None where it is not an absolute http(s) URL with a host and a valid port."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    if (
        parts.scheme not in ("http", "https")
        or not parts.hostname
        or parts.port == 0
        or re.search(r"[\x00-\x20\x7f]", url)
    ):
        return None
    return parts


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
        yield _wrong(
            place,
            "/target/url",
            repr(target.url)[:120],
            "the agent's own http(s) URL",
            "write `url: http://127.0.0.1:8000/answer`",
        )
    elif parts.username is not None or parts.password is not None:
        yield _wrong(
            place, "/target/url", "a user or password in the URL", "none", "put credentials into /target/headers"
        )
    if not re.fullmatch(r"[A-Z]+", target.method):
        yield _wrong(
            place, "/target/method", repr(target.method)[:40], "an HTTP method in capitals", "write `method: POST`"
        )
    yield from header_problems(target.headers, place=place, pointer="/target/headers")
    places = target.url + (target.body or "")
    if "{payload}" in places and not target.payloads:
        yield _wrong(
            place,
            "/target/payloads",
            "none",
            "at least one, since {payload} is used",
            "add `payloads:` with some prompts",
        )
    if target.payloads and "{payload}" not in places:
        yield _wrong(
            place,
            "/target/payloads",
            "a set that nothing uses",
            "`{payload}` in url or body",
            "put {payload} where it goes",
        )
    for number, payload in enumerate(target.payloads):
        if not payload.strip():
            yield _wrong(place, f"/target/payloads/{number}", "an empty prompt", "text", "remove the line")
    pointer = target.expect.pointer
    if pointer is not None and (not pointer.startswith("/") or re.search("~(?![01])", pointer)):
        yield _wrong(
            place, "/target/expect/pointer", repr(pointer)[:80], "a JSON pointer", "write it as `/choices/0/text`"
        )
    for name in ("not_matching", "fallback_matching"):
        pattern = getattr(target.expect, name)
        try:
            re.compile(pattern or "")
        except re.error as error:
            yield _wrong(
                place,
                f"/target/expect/{name}",
                f"a pattern that is none: {error}",
                "a regular expression",
                "mend it",
            )


_SECRET_HEADERS = frozenset(
    {"authorization", "proxy-authorization", "cookie", "x-api-key", "api-key", "x-auth-token", "x-goog-api-key"}
)
_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_OURS = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "traceparent", "x-drill-request", "accept-encoding"}
)


def header_problems(headers: Mapping[str, str], *, place: str, pointer: str) -> Iterator[Problem]:
    """What is wrong with headers that a plan names: each is one line of ASCII, none holds a key, none is ours to set."""
    for name, value in headers.items():
        if (
            not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name)
            or re.search(r"[\r\n\0]", value)
            or not value.isascii()
        ):
            yield _wrong(place, pointer, repr(name)[:40], "a header name, and a value of one ASCII line", "mend it")
        elif name.lower() in _SECRET_HEADERS and not _REFERENCE.search(value):
            yield _wrong(
                place,
                f"{pointer}/{name}",
                "a credential in the plan",
                "its name: a plan is evidence",
                f"write `{name}: ${{AGENT_KEY}}`",
            )
        elif name.lower() in _OURS:
            yield _wrong(place, pointer, repr(name), "none of ours", f"remove {name}: the drill sets it")


def fill_in(values: Mapping[str, str], environ: Mapping[str, str], *, place: str) -> dict[str, str]:
    """Put values of the environment in for `${NAME}`: keys come from there, never from a plan. Raises Problem."""

    def value(match: re.Match[str]) -> str:
        if match[1] not in environ:
            raise Problem(
                place,
                found=f"${{{match[1]}}}, which is not set",
                wanted="a variable of the environment",
                remedy=f"export {match[1]}=...",
            )
        return environ[match[1]]

    return {name: _REFERENCE.sub(value, text) for name, text in values.items()}


def parse_listen(text: str) -> tuple[str, int] | None:
    """Read `ADDRESS:PORT` or `[v6]:PORT`; None when it is neither. An IP or `localhost`; port 0 is any."""
    match = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([^:\[\]]+)):(\d{1,5})", text)
    if match is None or int(match[3]) > 65_535:
        return None
    host = match[1] or match[2]
    if host != "localhost":
        try:
            ipaddress.ip_address(host)
        except ValueError:
            return None
    return host, int(match[3])


def is_loopback(host: str) -> bool:
    """Whether a host as written is this machine: a loopback IP, or `localhost`."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def _listen(plan: Plan, place: str) -> Iterator[Problem]:
    parsed = parse_listen(plan.proxy.listen)
    if parsed is None:
        yield _wrong(
            place,
            "/proxy/listen",
            repr(plan.proxy.listen)[:80],
            "IP:PORT",
            "write `listen: 127.0.0.1:8081`, or the address of the bridge",
        )
    elif parsed[0] != "localhost" and ipaddress.ip_address(parsed[0]).is_unspecified:
        yield _wrong(
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
            yield _wrong(
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
        yield _wrong(
            place,
            "/proxy/upstream",
            repr(upstream)[:120],
            "an http(s) base URL",
            "write `upstream: https://api.openai.com`",
        )
    elif parts.username is not None or parts.password is not None:
        yield _wrong(
            place, "/proxy/upstream", "a user or password in the URL", "none: the agent sends its own key", "remove it"
        )
    elif parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        yield _wrong(
            place, "/proxy/upstream", "http to another host: the agent's key in the clear", "https", "write https://"
        )


def _until_ns(text: str) -> int | None:
    try:
        return parse_rfc3339(f"{date.fromisoformat(text).isoformat()}T23:59:59Z")
    except ValueError:
        return parse_rfc3339(text)


def _permission(plan: Plan, place: str, wall_ns: int, permit_host: str | None) -> Iterator[Problem]:
    every_s = plan.traffic.every_s
    yield from permission_problems(
        plan.target.url,
        plan.target.permit,
        place=place,
        wall_ns=wall_ns,
        permit_host=permit_host,
        total_s=_total_s(plan),
        per_s=1 / every_s if every_s > 0 else 0.0,
        requests=planned_requests(plan) if plan.target.permit is not None and every_s > 0 else 0,
        calmer="raise every_s",
    )


def permission_problems(
    url: str,
    permit: Permit | None,
    *,
    place: str,
    wall_ns: int,
    permit_host: str | None,
    total_s: float,
    per_s: float,
    requests: int,
    calmer: str,
) -> Iterator[Problem]:
    """Whether load may go to a URL: to loopback, or with the plan's permission that the command line repeats.

    `total_s`, `per_s` and `requests` are what is planned; `calmer` is what to do where that is more than is permitted.
    """
    parts = split_url(url)
    if parts is None:
        return
    host = parts.hostname or ""
    if permit is None:
        if not is_loopback(host):
            yield Refused(
                f"{place}: /target/url",
                found=f"{host}, which is not loopback",
                wanted="permission: load and faults go to loopback unless an owner allowed more",
                remedy=f"add `permit:` with its owner to target, and run with --permit-host {host}",
            )
        return
    at = f"{place}: /target/permit"
    if permit.host.lower() != host.lower():
        yield Refused(
            at,
            found=f"permission for {permit.host}",
            wanted=f"permission for {host}",
            remedy=f"set host to {host}, if its owner agrees",
        )
    if not permit.owner.strip():
        yield Refused(at, found="no owner", wanted="who allowed it", remedy="fill in owner")
    until_ns = _until_ns(permit.until)
    if until_ns is None:
        yield Refused(
            f"{at}/until",
            found=repr(permit.until)[:40],
            wanted="RFC 3339 time or date",
            remedy="write `until: 2026-12-31`",
        )
    elif until_ns < wall_ns + round(total_s * 1e9):
        yield Refused(
            f"{at}/until",
            found=f"{permit.until}, which is over before this drill would be ({rfc3339(wall_ns, digits=0)} now)",
            wanted="permission that holds until its end",
            remedy=f"ask {permit.owner or 'the owner'} for a new date",
        )
    if per_s > permit.max_per_s:
        yield Refused(
            f"{at}/max_per_s",
            found=f"{per_s:g} requests a second planned",
            wanted=f"at most {permit.max_per_s:g}",
            remedy=calmer,
        )
    if requests > permit.max_requests:
        yield Refused(
            f"{at}/max_requests",
            found=f"{requests} requests planned",
            wanted=f"at most {permit.max_requests}",
            remedy=calmer,
        )
    if not is_loopback(host) and (permit_host or "").lower() != host.lower():
        yield Refused(
            "--permit-host",
            found=permit_host or "nothing",
            wanted=f"{host}: permission is given twice, in the plan and on the command line",
            remedy=f"add --permit-host {host}",
        )


def _folded(name: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def unnamed_seats(plan: Plan) -> tuple[str, ...]:
    """The seats of a plan that nobody holds; any of them makes the run a rehearsal."""
    return empty_seats(plan.seats.names())


def empty_seats(names: Mapping[str, str]) -> tuple[str, ...]:
    """The seats without a name."""
    return tuple(seat for seat, name in names.items() if not _folded(name))


def seat_problems(names: Mapping[str, str], *, place: str, rehearsal: bool) -> Iterator[Problem]:
    """What is wrong with who sits where, by seat: one person, one seat, but in a rehearsal."""
    held: dict[str, str] = {}
    for seat, name in names.items():
        if re.search(r"[\x00-\x1f\x7f]", name) or len(name) > 100:
            yield _wrong(
                place, f"/seats/{seat}", "control characters, or over 100 of them", "a name", "write the person's name"
            )
        other = held.setdefault(_folded(name), seat)
        if other != seat and _folded(name) and not rehearsal:
            yield Refused(
                f"{place}: /seats/{seat}",
                found=f"{name.strip()}, who is the {other.capitalize()} already",
                wanted="another person: who injects does not judge, and one person holds one seat",
                remedy="name a third person, or rehearse alone with --rehearsal",
            )


def _texts(plan: Plan, place: str) -> Iterator[Problem]:
    if not plan.service.strip() or re.search(r"[\x00-\x1f\x7f]", plan.service):
        yield _wrong(place, "/service", repr(plan.service)[:60], "the service's name, one line", "name it")
    if plan.worker is not None and plan.timeline is not None:
        yield _wrong(
            place,
            "/timeline",
            "one, beside a worker",
            "one of them: a worker is told where to write",
            "remove timeline",
        )
    if plan.worker is not None and (not plan.worker.cmd or not plan.worker.cmd[0]):
        yield _wrong(place, "/worker/cmd", "nothing", "a program and its arguments", "write `cmd: [python3, agent.py]`")
    for line in ("quiet_window_agreed", "on_call_told", "status_note_drafted"):
        attest: Attest | None = getattr(plan.preflight, line)
        if attest is None:
            continue
        if not attest.by.strip():
            yield _wrong(place, f"/preflight/{line}/by", "nobody", "who attests it", "fill in by")
        if parse_rfc3339(attest.at) is None:
            yield _wrong(
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
            yield _wrong(
                place,
                f"/window/{side}",
                repr(getattr(plan.window, side))[:40],
                "RFC 3339 with a zone",
                f"write `{side}: 2026-12-01T09:00:00Z`",
            )
    if start_ns is not None and end_ns is not None and start_ns >= end_ns:
        yield _wrong(place, "/window", "an end that is not after the start", "start < end", "swap them")


def window_problem(plan: Plan, *, place: str, from_ns: int, until_ns: int) -> Refused | None:
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


def _total_s(plan: Plan) -> float:
    return plan.phases.baseline_s + plan.phases.fault_s + plan.phases.recovery_s


def planned_requests(plan: Plan) -> int:
    """How many requests the traffic sends in all."""
    return arrivals_in(_total_s(plan), plan.traffic.every_s)


def default_spend(plan: Plan) -> Spend:
    """The cap of a plan that names none: ten requests to the real endpoint for each that baseline and recovery ask."""
    every_s = plan.traffic.every_s
    asked = arrivals_in(plan.phases.baseline_s, every_s) + arrivals_in(plan.phases.recovery_s, every_s)
    return Spend(max_requests=10 * asked + 20)


def least_requests(max_failed_ratio: float) -> int:
    """How many requests it takes to tell a budget at all: 1/budget; one where the budget is 0, which is a census."""
    return max(1, math.ceil(round(1 / max_failed_ratio, 9))) if max_failed_ratio > 0 else 1


def allowed_failures(max_failed_ratio: float, requests: int) -> int:
    """How many of `requests` may fail."""
    return math.floor(round(max_failed_ratio * requests, 9))


def _window_s(plan: Plan, numbers: Numbers) -> float:
    return plan.phases.fault_s if numbers.failed_window == "fault" else _total_s(plan)


def _bounds(plan: Plan, place: str) -> Iterator[Problem]:
    every_s = plan.traffic.every_s
    if every_s < MIN_EVERY_S:
        yield _wrong(
            place,
            "/traffic/every_s",
            f"{every_s:g}",
            f"at least {MIN_EVERY_S:g} s: a drill is no load test",
            "raise it",
        )
    for name, phase_s in msgspec.structs.asdict(plan.phases).items():
        if phase_s < every_s:
            yield _wrong(
                place,
                f"/phases/{name}",
                f"{phase_s:g} s",
                f"at least one traffic period, {every_s:g} s",
                f"raise {name}",
            )
    if _total_s(plan) > MAX_DRILL_S:
        yield _wrong(place, "/phases", f"{_total_s(plan):g} s in all", f"at most {MAX_DRILL_S} s", "shorten the phases")
    if plan.traffic.time_limit_s / every_s > MAX_IN_FLIGHT:
        yield _wrong(
            place,
            "/traffic",
            f"{plan.traffic.time_limit_s / every_s:.0f} requests in flight when nothing answers",
            f"at most {MAX_IN_FLIGHT}",
            "raise every_s or lower time_limit_s",
        )
    if plan.fault.linger_s > plan.phases.recovery_s:
        yield _wrong(
            place, "/fault/linger_s", f"{plan.fault.linger_s:g} s", "less than the recovery phase", "lower linger_s"
        )
    upstream = arrivals_in(plan.phases.baseline_s, every_s) + arrivals_in(plan.phases.recovery_s, every_s)
    if plan.spend is not None and plan.spend.max_requests < upstream:
        yield _wrong(
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
        yield _wrong(
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
    for wrong in what_is_wrong(fault.rules, scopes.__getitem__, "/fault/rules"):
        yield _wrong(place, wrong.pointer, wrong.found, wrong.wanted, wrong.remedy)
    made = [make(rule.tag, rule.params) for rule in fault.rules]
    for wrong in unreached(fault.rules, made, "/fault/rules"):
        yield _wrong(place, wrong.pointer, wrong.found, wrong.wanted, wrong.remedy)
    for at, rule in enumerate(fault.rules):
        yield from _rule(fault.rules, at, place)
        if rule.schedule and min(start for start, _ in rule.schedule) >= plan.phases.fault_s:
            yield _wrong(
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
            yield _wrong(
                place,
                f"{pointer}/when/header/{name}",
                "what looks like a credential",
                "none: plan and evidence are kept",
                'match it by `key`, its hash (printf %s "$OPENAI_API_KEY" | sha256sum | cut -c1-16), or by a pattern: "Bearer *"',
            )
    if when.dialect is not None and when.dialect not in dialects.names():
        near = difflib.get_close_matches(when.dialect, dialects.names(), 1)
        remedy = f"Did you mean {near[0]}?" if near else "see the attempts' lines of a run: dialect"
        yield _wrong(
            place, f"{pointer}/when/dialect", repr(when.dialect), f"one of {', '.join(dialects.names())}", remedy
        )
    for field, said, need in (("stream", False, "stream"), ("stream", True, "whole"), ("tools", False, "tools")):
        if need in fault.needs and getattr(when, field) is said:
            yield _wrong(
                place,
                f"{pointer}/when/{field}",
                str(said).lower(),
                f"what {rule.tag} can act on",
                f"take {field} out, or write {field}: {str(not said).lower()}",
            )


def _arithmetic(plan: Plan, place: str, numbers: Numbers) -> Iterator[Problem]:
    window_s = _window_s(plan, numbers)
    requests, least = arrivals_in(window_s, plan.traffic.every_s), least_requests(numbers.max_failed_ratio)
    if requests < least:
        yield Refused(
            f"{place}: /traffic/every_s",
            found=f"{requests} requests in the {numbers.failed_window} window of {window_s:g} s",
            wanted=f"at least {least}: fewer cannot tell a budget of {share_text(numbers.max_failed_ratio)}",
            remedy=f"set every_s to {_shorter(window_s / (least + 2)):g}",
        )
    for name, budget_s, phase, phase_s in (
        ("max_fallback_s", numbers.max_fallback_s, "fault", plan.phases.fault_s),
        ("max_recovery_s", numbers.max_recovery_s, "recovery", plan.phases.recovery_s),
    ):
        if budget_s is not None and budget_s > phase_s:
            yield Refused(
                f"{place}: /phases/{phase}_s",
                found=f"{phase_s:g} s, and the policy's {name} is {budget_s:g} s",
                wanted="a window that is at least as long as its budget",
                remedy=f"set {phase}_s to {budget_s:g} or more, or compress less: budgets stay in seconds",
            )


def _shorter(period_s: float) -> float:
    """A period that is not longer than `period_s` and has three digits at most."""
    digits = 2 - math.floor(math.log10(period_s))
    scale: float = 10.0**digits
    return math.floor(period_s * scale) / scale


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
    window_s = _window_s(plan, numbers)
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


def parse_factor(text: str) -> float | None:
    """Read `30x` or `30`; None when it is no finite factor of at least 1."""
    match = re.fullmatch(r"(\d{1,6}(?:\.\d{1,6})?)[xX]?", text.strip())
    return float(match[1]) if match is not None and float(match[1]) >= 1 else None


def _budgets(plan: Plan, numbers: Numbers) -> tuple[tuple[str, float, str, float], ...]:
    """The budgets in seconds, each with the phase it has to fit into."""
    return (
        ("max_fallback_s", numbers.max_fallback_s, "fault_s", plan.phases.fault_s),
        ("max_recovery_s", numbers.max_recovery_s or 0.0, "recovery_s", plan.phases.recovery_s),
    )


def _most(plan: Plan, numbers: Numbers) -> tuple[float, str]:
    """The largest factor that leaves each budget its window and the traffic its least period, and what sets it."""
    each = [
        (phase_s / budget_s, f"{phase} is {phase_s:g} s and the policy's {name} {budget_s:g} s")
        for name, budget_s, phase, phase_s in _budgets(plan, numbers)
        if budget_s > 0
    ]
    least = least_requests(numbers.max_failed_ratio)
    shortest_s = min(plan.traffic.every_s, _window_s(plan, numbers) / (least + 2))
    each.append((shortest_s / MIN_EVERY_S, f"requests come {MIN_EVERY_S * 1000:g} ms apart at least"))
    factor, why = min(each)
    hundredths: int = math.floor(round(factor * 100, 6))
    return hundredths / 100, why


def fitting_factor(
    plan: Plan, numbers: Numbers, *, place: str, wall_ns: int, rehearsal: bool = False, permit_host: str | None = None
) -> float:
    """The factor of `--compress max`: the largest that policy and plan leave room for; 1 where they leave none.

    Each budget stays shorter than its window, a user's patience shorter than the fault, no phase gets shorter than
    LEAST_PHASE_S, the plan still makes sense, and the real endpoint gets at most MAX_FITTING times the planned rate.
    """
    phases = plan.phases
    shortest_s = min(phases.baseline_s, phases.fault_s, phases.recovery_s)
    # Below a bound and not on it: a window that is as long as its budget has no second in which it could be missed.
    below = min(phases.fault_s / plan.traffic.time_limit_s, _most(plan, numbers)[0])
    candidates: tuple[float, ...] = (*range(MAX_FITTING, 1, -1), 1.75, 1.5, 1.25)
    for factor in candidates:
        if factor >= below or shortest_s / factor < LEAST_PHASE_S:
            continue
        sane = check(
            compress(plan, factor, numbers),
            place=place,
            wall_ns=wall_ns,
            numbers=numbers,
            rehearsal=rehearsal,
            permit_host=permit_host,
        )
        if not sane.problems:
            return factor
    return 1.0


def compress(plan: Plan, factor: float, numbers: Numbers) -> Plan:
    """Divide phases and traffic period by `factor`; shorten the period further where fewer than 1/budget would be left.

    Seconds of budgets, of patience and of lingering stay. Raises Refused where a budget does not fit into its window
    any more, or no period is short enough, naming the largest factor that works.
    """
    if not (math.isfinite(factor) and factor >= 1):
        raise Refused(
            "--compress",
            found=f"{factor:g}",
            wanted="a factor of at least 1, such as 5x, or max",
            remedy="write --compress max",
        )
    phases = plan.phases
    most, why = _most(plan, numbers)
    if factor > most:
        short = [
            f"{phase} of {phase_s / factor:.3g} s for the policy's {name}, {budget_s:g} s"
            for name, budget_s, phase, phase_s in _budgets(plan, numbers)
            if budget_s > phase_s / factor
        ]
        raise Refused(
            f"--compress {factor:g}x",
            found=" and ".join(short) or f"requests less than {MIN_EVERY_S * 1000:g} ms apart",
            wanted=f"at most {most:g}x, since {why}; budgets stay in seconds"
            if most >= 1
            else f"a window that holds its budget uncompressed: {why}",
            remedy=f"write --compress max, or {most:g}x at most" if most >= 1 else "lengthen the phase in the plan",
        )
    short_phases = Phases(
        baseline_s=phases.baseline_s / factor, fault_s=phases.fault_s / factor, recovery_s=phases.recovery_s / factor
    )
    rules = tuple(faster(rule, factor) for rule in plan.fault.rules)
    shorter = msgspec.structs.replace(plan, phases=short_phases, fault=msgspec.structs.replace(plan.fault, rules=rules))
    needed_s = _window_s(shorter, numbers) / (least_requests(numbers.max_failed_ratio) + 2)
    every_s = min(plan.traffic.every_s / factor, needed_s, short_phases.baseline_s, short_phases.recovery_s)
    every_s = max(every_s, MIN_EVERY_S)  # the bound above holds but for its rounding
    return msgspec.structs.replace(shorter, traffic=msgspec.structs.replace(plan.traffic, every_s=every_s))
