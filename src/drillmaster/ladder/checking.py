"""Whether the plan of an interview can work, and what it can show. Pure: a plan in, problems and sentences out.

1. Everything that makes a run worthless is found before the first call: levels that are none or come twice, fewer calls than
   callers, time limits that are no time, an endpoint that nobody permitted, a spend cap that the calls do not fit under.
2. What so many calls can support is said before any load: which quantile they bound, which rate of errors they exclude.
3. Compression divides idle time, pauses of callers and the seconds of open stages. Calls, callers and time limits stay.
4. A cap on requests holds for the worst that may come: where a plan heeds Retry-After, every call is sent as often as that allows.
"""

import math
import re
from collections.abc import Iterator, Mapping

import msgspec

from drillmaster import strict
from drillmaster.errors import Problem, Refused
from drillmaster.ladder import Arrivals, Asked, Honour, InterviewPlan, Step, steps
from drillmaster.ladder.bodies import DIALECTS, NO_MODEL
from drillmaster.policy import share_text
from drillmaster.sanity import (
    header_problems,
    is_loopback,
    permission_problems,
    seat_problems,
    split_url,
)
from drillmaster.stats import blocks_for_bound, rate_bound, samples_for_bound

__all__ = ["MOST_IN_A_TIME", "Place", "check", "compressed", "longest_s", "support"]

MAX_CALLERS = 10_000
MAX_CALLS = 10_000_000
MAX_PROCESSES = 64
MAX_SPAN_S = 86_400
MAX_ATTEMPTS = 100
MOST_IN_A_TIME = 100_000
"""Calls of a level whose time is what is meant to end it."""
_PROMPT = next(field.default for field in msgspec.structs.fields(Asked) if field.name == "prompt")


class Place(msgspec.Struct, frozen=True):
    """How the parts of a plan are called in messages: a file with a pointer, or the options of a command line."""

    name: str
    options: Mapping[str, str] = {}
    """Pointer to option; a plan's file has none."""

    def at(self, pointer: str) -> str:
        option, above = self.options.get(pointer), pointer
        while option is None and self.options and above:  # what is said in one option may have several parts
            above = above.rpartition("/")[0]
            option = self.options.get(above)
        return option or f"{self.name}: {pointer}"


def check(
    plan: InterviewPlan, *, place: Place, wall_ns: int, rehearsal: bool = False, permit_host: str | None = None
) -> list[Problem]:
    """Look at all that can be known before a socket is opened."""
    found = [*_numbers(plan, place), *_target(plan, place)]
    found += seat_problems(plan.seats.names(), place=place.name, rehearsal=rehearsal)
    if not found:
        found += [*_held(plan, place), *_bounds(plan, place), *_permission(plan, place, wall_ns, permit_host)]
    return found


def _numbers(plan: InterviewPlan, place: Place) -> Iterator[Problem]:
    if not plan.levels:
        yield Problem(place.at("/levels"), found="none", wanted="at least one number of callers", remedy="write 1,4,8")
    for at, level in enumerate(plan.levels):
        where = place.at("/levels") if place.options else f"{place.at('/levels')}/{at}"
        if not 1 <= level <= MAX_CALLERS:
            yield Problem(
                where,
                found=f"{level} at place {at + 1}",
                wanted=f"a number of callers, 1 to {MAX_CALLERS}",
                remedy="write whole numbers such as 1,4,8",
            )
        elif level in plan.levels[:at]:
            yield Problem(
                where,
                found=f"{level} twice, again at place {at + 1}",
                wanted="each level once: its row is known by its number",
                remedy="write it once; for more calls raise --warm",
            )
    positive: dict[str, float] = {"/warm": plan.warm, "/timeout_s": plan.timeout_s}
    if plan.seconds is not None:
        positive["/seconds"] = plan.seconds
    for at, one in enumerate(plan.open):
        positive |= {f"/open/{at}/rate_per_s": one.rate_per_s, f"/open/{at}/seconds": one.seconds}
        if one.rate_to_per_s is not None:
            positive[f"/open/{at}/rate_to_per_s"] = one.rate_to_per_s
        if one.max_in_flight is not None:
            positive[f"/open/{at}/max_in_flight"] = one.max_in_flight
        elif math.isfinite(one.most_per_s * plan.timeout_s) and one.in_flight(plan.timeout_s) > MAX_CALLERS:
            yield Problem(
                place.at(f"/open/{at}/max_in_flight"),
                found=f"nothing, and {one.most_per_s:g} calls a second with a time limit of {plan.timeout_s:g} s: "
                f"{one.in_flight(plan.timeout_s):,} at once where none is answered",
                wanted="a number: how many may be under way at once; what is due beyond it is dropped, and a failure",
                remedy=f"write max_in_flight (--max-in-flight {MAX_CALLERS}), or a shorter time limit",
            )
    if plan.drain is not None:
        positive["/drain/calls"] = plan.drain.calls
        if plan.drain.callers is not None:
            positive["/drain/callers"] = plan.drain.callers
    if plan.spend is not None:
        positive["/spend/max_requests"] = plan.spend.max_requests
        if plan.spend.max_tokens is not None:
            positive["/spend/max_tokens"] = plan.spend.max_tokens
    if plan.target.max_tokens is not None:
        positive["/target/max_tokens"] = plan.target.max_tokens
    permit = plan.target.permit
    if permit is not None:
        positive |= {
            "/target/permit/max_per_s": permit.max_per_s,
            "/target/permit/max_requests": permit.max_requests,
            "/target/permit/max_in_flight": permit.max_in_flight,
        }
    if isinstance(plan.retry, Honour):
        positive["/retry/max_wait_s"] = plan.retry.max_wait_s
        if not 2 <= plan.retry.max_attempts <= MAX_ATTEMPTS:
            yield Problem(
                place.at("/retry/max_attempts"),
                found=f"{plan.retry.max_attempts}",
                wanted=f"2 to {MAX_ATTEMPTS}, the first time included",
                remedy="write 3; without another attempt the policy is none",
            )
    for pointer, value in positive.items():
        if not (math.isfinite(value) and value > 0):
            yield Problem(
                place.at(pointer),
                found=f"{value:g}",
                wanted="a finite number over 0",
                remedy="give what is meant, such as 60" if pointer == "/timeout_s" else "give what is meant",
            )
    spans = {
        "/idle_s": plan.idle_s,
        "/stop/min_free_mb": plan.stop.min_free_mb,
        "/think/turn_s": plan.think.turn_s,
        "/think/session_s": plan.think.session_s,
    }
    for pointer, value in spans.items():
        if not (math.isfinite(value) and 0 <= value <= MAX_SPAN_S):
            yield Problem(
                place.at(pointer),
                found=f"{value:g}",
                wanted=f"a finite number, 0 to {MAX_SPAN_S}",
                remedy="give what is meant, such as 120",
            )
    if isinstance(plan.retry, Honour) and math.isfinite(plan.retry.max_wait_s) and plan.retry.max_wait_s > MAX_SPAN_S:
        yield Problem(
            place.at("/retry/max_wait_s"),
            found=f"{plan.retry.max_wait_s:g}",
            wanted=f"at most {MAX_SPAN_S} s",
            remedy="lower it",
        )
    if not 1 <= plan.processes <= MAX_PROCESSES:
        yield Problem(
            place.at("/processes"),
            found=str(plan.processes),
            wanted=f"a number of engine processes, 1 to {MAX_PROCESSES}",
            remedy="give one for each core that may be used; more than one machine has: see --engine locust",
        )
    if math.isfinite(plan.timeout_s) and plan.timeout_s > MAX_SPAN_S:
        yield Problem(
            place.at("/timeout_s"), found=f"{plan.timeout_s:g}", wanted=f"at most {MAX_SPAN_S} s", remedy="lower it"
        )


def _target(plan: InterviewPlan, place: Place) -> Iterator[Problem]:
    target = plan.target
    parts = split_url(target.http_url)
    if parts is None:
        yield Problem(
            place.at("/target/url"),
            found=repr(target.url.partition("?")[0])[:120],
            wanted="the endpoint's whole URL, http(s) or ws(s), without spaces",
            remedy="write it as http://127.0.0.1:8000/v1/chat/completions",
        )
    elif parts.username is not None or parts.password is not None:
        yield Problem(
            place.at("/target/url"),
            found="a user or password in the URL",
            wanted="none: a plan is evidence",
            remedy="put credentials into /target/headers, as `Authorization: Basic ${NAME}`",
        )
    elif (
        parts.scheme == "http"
        and not is_loopback(parts.hostname or "")
        and any("${" in value for value in target.headers.values())
    ):
        yield Problem(
            place.at("/target/url"),
            found=f"{target.url.partition(':')[0]} to another host, with a key",
            wanted="https, or wss",
            remedy="write https://, or wss:// for a WebSocket",
        )
    yield from header_problems(
        target.headers, place=place.name, pointer=place.options.get("/target/headers", "/target/headers")
    )
    if target.is_websocket:  # it is asked in no API's words
        pass
    elif target.dialect not in DIALECTS:
        yield Problem(
            place.at("/target/dialect"),
            found=repr(target.dialect)[:60],
            wanted=f"one of {', '.join(DIALECTS)}",
            remedy=_meant(target.dialect) or "name the API that the endpoint speaks",
        )
    elif (
        target.dialect not in NO_MODEL
        and target.model is None
        and target.payloads is None
        and target.method == "POST"
        and target.form is None
    ):
        yield Problem(
            place.at("/target/model"),
            found="no model",
            wanted=f"the model's name: {target.dialect} is asked by it",
            remedy=f"give {place.at('/target/model')}, as the job does",
        )
    if target.stream and target.dialect == "plain" and not target.is_websocket:
        yield Problem(
            place.at("/target/stream"),
            found="a stream of plain JSON",
            wanted="a dialect that says how a stream is asked for, and when it is over",
            remedy=f"name it with {place.at('/target/dialect')}",
        )
    yield from _fields(plan, place)
    yield from _websocket(plan, place)
    if not target.prompt.strip() and target.payloads is None:
        yield Problem(
            place.at("/target/prompt"), found="an empty prompt", wanted="text", remedy="write what the job asks"
        )
    if not plan.job.strip() or re.search(r"[\x00-\x1f\x7f]", plan.job):
        yield Problem(place.at("/job"), found=repr(plan.job)[:60], wanted="the job's name, one line", remedy="name it")
    labels = [one.label for one in plan.open]
    for at, label in enumerate(labels):
        if label in labels[:at]:
            yield Problem(
                place.at("/open"),
                found=f"{label} twice",
                wanted="each rate once",
                remedy="make one stage of them, or change a rate",
            )


def _websocket(plan: InterviewPlan, place: Place) -> Iterator[Problem]:
    """Messages where there is no WebSocket, and what a WebSocket has none of."""
    target = plan.target
    said = target.websocket
    if not target.is_websocket:
        if said is not None:
            yield Problem(
                place.at("/target/websocket"),
                found=f"messages, and a URL of {target.url.partition(':')[0][:20]}",
                wanted="a URL that begins with ws:// or wss://",
                remedy="write the URL as the job opens its WebSocket",
            )
        return
    for pointer, pattern in (("until", said.until), ("failed", said.failed)) if said is not None else ():
        try:
            re.compile((pattern or "").encode())
        except re.error as error:
            yield Problem(
                place.at(f"/target/websocket/{pointer}"),
                found=f"{pattern!r:.80}: {error}",
                wanted="a regular expression",
                remedy="mend it, or leave it out",
            )
    none_there = {
        "/target/dialect": target.dialect != "plain",
        "/target/stream": target.stream,
        "/target/method": target.method != "POST" and target.query is None,
        "/target/query": target.query is not None,
        "/target/form": target.form is not None,
        "/retry": isinstance(plan.retry, Honour),
    }
    for pointer in (pointer for pointer, given in none_there.items() if given):
        yield Problem(
            place.at(pointer),
            found="it, and a WebSocket",
            wanted="messages: JSON text, timed one by one, without method, fields, an API's dialect or a Retry-After",
            remedy="leave it out; whole messages come from a file of payloads, and websocket.until says which one ends an answer",
        )


def _fields(plan: InterviewPlan, place: Place) -> Iterator[Problem]:
    """Forms and queries where none can be, or that say nothing."""
    target = plan.target
    if target.is_websocket and (target.form is not None or target.query is not None):
        return  # it has neither, and that is said once
    if target.form is not None and target.query is not None:
        yield Problem(
            place.at("/target/form"),
            found="a form and a query",
            wanted="one of them: a form is the body of a POST, a query part of a GET's URL",
            remedy="write the fixed part of the query into the URL",
        )
    elif target.form is not None and target.method == "GET":
        yield Problem(
            place.at("/target/form"),
            found="a form for a GET, which has no body",
            wanted="POST with form, or GET with query",
            remedy="write method: POST",
        )
    elif target.query is not None and target.method != "GET":
        yield Problem(
            place.at("/target/query"),
            found=f"a query for a {target.method}, whose payload is its body",
            wanted="GET with query, or POST with form",
            remedy="write method: GET, or put the query into the URL",
        )
    for pointer, fields in (("/target/form", target.form), ("/target/query", target.query)):
        if fields is not None and (not fields or not all(name.strip() for name in fields)):
            yield Problem(
                place.at(pointer),
                found="no field" if not fields else "a field without a name",
                wanted="at least one name with its value",
                remedy="write q: '{prompt}'",
            )
    in_fields = target.form is not None or target.query is not None
    rows = target.payloads is not None and target.payloads.lower().endswith(".csv")
    if target.payloads is not None and target.prompt != _PROMPT and (in_fields or not rows):
        yield Problem(
            place.at("/target/prompt"),
            found="a prompt beside payloads that do not go into it",
            wanted="one of them: rows of a .csv file fill a prompt's {column}s, lines of JSONL are prompts themselves",
            remedy="leave the prompt out, or write the rows as .csv",
        )
    if target.method == "GET" and target.query is None and target.payloads is not None:
        yield Problem(
            place.at("/target/payloads"),
            found="payloads for a GET, which sends none",
            wanted="a query that they go into",
            remedy="write query: {q: '{prompt}'}",
        )


def _meant(dialect: str) -> str:
    """A name that is nearly one, or a part of one."""
    meant = strict.near(dialect, list(DIALECTS)) or next(
        (name for name in DIALECTS if dialect and dialect in name), None
    )
    return f"Did you mean {meant}?" if meant else ""


def _held(plan: InterviewPlan, place: Place) -> Iterator[Problem]:
    """Calls that do not suffice to occupy all callers at once."""
    most = max(plan.levels)
    if plan.warm < most:
        yield Problem(
            place.at("/warm"),
            found=f"{plan.warm} calls for a level of {most} callers",
            wanted=f"at least {most}: fewer calls than callers cannot hold the level",
            remedy=f"give {place.at('/warm')} {most} or more, or lower the level",
        )
    if plan.drain is not None and plan.drain.callers is not None and plan.drain.calls < plan.drain.callers:
        yield Problem(
            place.at("/drain"),
            found=f"{plan.drain.calls} calls for {plan.drain.callers} callers",
            wanted="a batch of at least one call a caller",
            remedy="raise calls",
        )


def _bounds(plan: InterviewPlan, place: Place) -> Iterator[Problem]:
    calls = sum(step.calls for step in steps(plan))
    if calls > MAX_CALLS:
        yield Problem(
            place.at("/warm"), found=f"{calls:,} calls in all", wanted=f"at most {MAX_CALLS:,}", remedy="take fewer"
        )
    if plan.seconds is not None and plan.seconds * len(plan.levels) > MAX_SPAN_S:
        yield Problem(
            place.at("/seconds"),
            found=f"{plan.seconds:g} s for each of {len(plan.levels)} levels",
            wanted=f"at most {MAX_SPAN_S} s in all",
            remedy="shorten them",
        )
    open_s = sum(one.seconds for one in plan.open)
    if open_s > MAX_SPAN_S:
        yield Problem(
            place.at("/open"), found=f"{open_s:g} s in all", wanted=f"at most {MAX_SPAN_S}", remedy="shorten them"
        )
    attempts = most_attempts(plan)
    if plan.spend is not None and calls * attempts > plan.spend.max_requests:
        again = "" if attempts == 1 else f", each sent up to {attempts} times where the endpoint asks for it"
        yield Problem(
            place.at("/spend/max_requests"),
            found=f"{plan.spend.max_requests} allowed, and {calls} calls planned, warm-up and cold call among them{again}",
            wanted="a plan that fits under its cap",
            remedy=f"raise the cap to {calls * attempts}, or take fewer calls",
        )


def _permission(plan: InterviewPlan, place: Place, wall_ns: int, permit_host: str | None) -> Iterator[Problem]:
    target, planned = plan.target, steps(plan)
    parts = split_url(target.http_url)
    host = "" if parts is None else parts.hostname or ""
    if place.options and target.permit is None and not is_loopback(host):
        yield Refused(
            place.at("/target/url"),
            found=f"{host}, which is not loopback",
            wanted="permission: a ladder is a load test, and goes to loopback unless the host's owner allowed more",
            remedy="write a plan with `permit:` (host, owner, until, max_per_s, max_requests, max_in_flight), then: "
            f"drillmaster interview PLAN.yaml --permit-host {host}",
        )
        return
    yield from permission_problems(
        target.http_url,
        target.permit,
        place=place.name,
        wall_ns=wall_ns,
        permit_host=permit_host,
        total_s=longest_s(plan),
        per_s=max((one.most_per_s for one in plan.open), default=0.0),
        requests=sum(step.calls for step in planned) * most_attempts(plan),
        calmer="plan less load",
    )
    most = max(step.callers for step in planned)
    if target.permit is not None and most > target.permit.max_in_flight:
        yield Refused(
            f"{place.name}: /target/permit/max_in_flight",
            found=f"{most} calls at once planned",
            wanted=f"at most {target.permit.max_in_flight}",
            remedy="plan fewer callers, or set max_in_flight of the open stages",
        )


def most_attempts(plan: InterviewPlan) -> int:
    """How often one call may be sent."""
    return plan.retry.max_attempts if isinstance(plan.retry, Honour) else 1


def longest_s(plan: InterviewPlan) -> float:
    """How long it takes where every call is cut at its time limit, as often as it may be sent, and every pause is the longest."""
    call_s = plan.timeout_s
    if isinstance(plan.retry, Honour):
        call_s = call_s * plan.retry.max_attempts + plan.retry.max_wait_s
    return _span_s(plan, call_s, plan.think.longest_s)


def likely_s(plan: InterviewPlan, call_s: float) -> float:
    """How long it takes where a call takes `call_s`, whatever the level, and nobody asks for waits."""
    return _span_s(plan, call_s, max(plan.think.turn_s, plan.think.session_s))


def _span_s(plan: InterviewPlan, call_s: float, pause_s: float) -> float:
    def step_s(step: Step) -> float:
        if step.arrivals is not None:
            return step.arrivals.seconds + call_s
        turns = math.ceil(step.calls / step.callers)
        if step.seconds is not None and step.seconds / (call_s or 1.0) < turns:
            return step.seconds + call_s + pause_s * (step.think is not None)
        return turns * call_s + (turns - 1) * (0 if step.think is None else pause_s)

    return plan.idle_s + sum(step_s(step) for step in steps(plan))


def support(plan: InterviewPlan, wanted: Mapping[str, tuple[int, float]] | None = None) -> tuple[str, ...]:
    """Say what so many calls over so long a time can show, and how long they take: before any load.

    `wanted`: level by level the calls and seconds that a policy's bounds take; None: nobody has signed one.
    """
    planned = steps(plan)
    calls = sum(step.calls for step in planned)
    n = plan.warm
    bounded = [f"p{round(q * 100)}" for q in (0.5, 0.9, 0.95, 0.99) if n >= samples_for_bound(q)]
    needs = [f"p{round(q * 100)} takes {samples_for_bound(q)}" for q in (0.95, 0.99) if n < samples_for_bound(q)]
    shows = f"{n} calls a level bound {' and '.join(bounded[-1:]) or 'no quantile'} from above at 95 %"
    shows += f" ({', '.join(needs)})" if needs else ""
    shows += f"; without a failure they show at most {share_text(rate_bound(0, n))} of errors"
    said = [
        f"{calls} calls: {', '.join(_step_text(step.label, step.calls, step.callers) for step in planned if step.kind != 'warmup')}"
        ", each level after one warm-up call a caller",
        *([shows] if plan.seconds is None else []),
        *_lengths(plan, wanted),
        f"takes about {_span(likely_s(plan, 1.0))} at 1 s a call, at most {_span(longest_s(plan))} where every call is cut at "
        f"{plan.timeout_s:g} s",
    ]
    if plan.think.longest_s:
        of_mean = ", exponential by the seed" if plan.think.law == "exponential" else ""
        said.append(
            f"a caller pauses {plan.think.turn_s:g} s between turns of a session and {plan.think.session_s:g} s between sessions"
            f"{of_mean}: fewer calls are in flight than there are callers"
        )
    if isinstance(plan.retry, Honour):
        said.append(
            f"a 429 or 503 that says how long to wait is waited for, {plan.retry.max_wait_s:g} s in all, and sent again, up to "
            f"{plan.retry.max_attempts} times: latencies count on meanwhile"
        )
    emptying = [level for level in plan.levels if level > 1 and n < 10 * level and plan.seconds is None]
    if emptying:
        said.append(
            f"the last calls of a level run while it empties: of {n} at {max(emptying)} callers the last {max(emptying)}; "
            f"{10 * max(emptying)} calls would keep that to one in ten"
        )
    return tuple(said)


def _lengths(plan: InterviewPlan, wanted: Mapping[str, tuple[int, float]] | None) -> Iterator[str]:
    """How long the levels have to last for a bound that takes calls of one stall for one."""
    lasts = (
        ""
        if plan.seconds is None
        else f"; each lasts {plan.seconds:g} s, or {plan.warm} calls if those are over before"
    )
    if wanted is None:
        blocks = blocks_for_bound(0.95)
        yield (
            f"calls of one stall count as one: a bound of p95 takes {blocks} blocks of time, each several times as long as a "
            f"stall; of 5 s that is --seconds {5 * blocks}{lasts}"
        )
        return
    for step in steps(plan):
        calls, seconds = wanted.get(step.label, (0, 0.0))
        if not calls and not seconds:
            continue
        has_s = step.arrivals.seconds if step.arrivals is not None else step.seconds
        short = seconds > 0 and step.kind in ("closed", "open") and (has_s is None or has_s < seconds)
        few = step.calls < calls
        said = f"what is signed for {step.label} takes {calls} calls" + (f" over {seconds:g} s" if seconds else "")
        has = f"{step.calls} calls" + (
            "" if has_s is None else f" in {has_s:g} s at most" if step.arrivals is None else ""
        )
        # The calls of a level end it before its seconds do, so more of both are wanted.
        by_time = step.kind == "closed" and seconds > 0 and step.calls < MOST_IN_A_TIME
        if short or few:
            more: dict[str, float] = {"seconds": seconds} if short else {}
            more |= {"warm": MOST_IN_A_TIME if by_time else calls} if few or by_time else {}
            how = "a longer --open"
            if step.arrivals is None:
                how = " ".join(f"--{name} {value:g}" for name, value in more.items())
                how += f", or {', '.join(f'{name}: {value:g}' for name, value in more.items())} in the plan"
            said += (
                f", and the plan has {has}{'' if has_s is not None or not short else ', however long they take'}, of which "
                f"no pass can come: {how}"
            )
        else:
            said += f"; the plan has {has}"
            least_s = seconds * step.callers / step.calls
            if by_time:
                said += f", which last that long where a call takes {least_s:.2g} s"
                said += f"; where it takes less, give warm {MOST_IN_A_TIME}"
        yield said


def _step_text(label: str, calls: int, callers: int) -> str:
    return f"{label} {calls}" if callers == 1 or not label.startswith("drain") else f"{label} {calls} by {callers}"


def _span(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min" + (f" {rest} s" if rest else "")


def compressed(plan: InterviewPlan, factor: float) -> InterviewPlan:
    """Divide the idle time, pauses and the seconds of levels and open stages; all else stays."""
    shorter: tuple[Arrivals, ...] = tuple(
        msgspec.structs.replace(one, seconds=one.seconds / factor) for one in plan.open
    )
    think = msgspec.structs.replace(
        plan.think, turn_s=plan.think.turn_s / factor, session_s=plan.think.session_s / factor
    )
    seconds = None if plan.seconds is None else plan.seconds / factor
    return msgspec.structs.replace(plan, idle_s=plan.idle_s / factor, open=shorter, think=think, seconds=seconds)
