"""See that the agent is ready for a drill: it answers as the plan expects, through the proxy, by the real endpoint's answer.

Where it does not, say why with all that is known: what the proxy saw, what the endpoint said, what the agent itself printed.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from drillmaster.clock import Clock
from drillmaster.errors import Refused
from drillmaster.outcomes import PROBE_TRACE
from drillmaster.plan import Plan, Target
from drillmaster.run.crew import Line
from drillmaster.run.traffic import NOTHING_AT, Answer, Asker, curl_line, outcome_of, prepare
from drillmaster.run.upstream import Detour
from drillmaster.strict import near

__all__ = ["endpoint_answers", "no_answer", "reach_agent"]

SETTLED_S = 3.0
"""How long an agent may give whole answers in which the plan's pointer leads nowhere: the plan is wrong then, and no start slow."""


async def reach_agent(
    plan: Plan,
    asker: Asker,
    *,
    target: Target,
    clock: Clock,
    proxy_url: str,
    proxy_counts: Callable[[], Awaitable[dict[str, Any]]],
    wait_s: float,
    alive: Callable[[], bool],
    attempts: Callable[[], Sequence[Mapping[str, Any]]],
    worker_said: Callable[[], Awaitable[tuple[str, ...]]],
    detour: Detour | None = None,
) -> list[Line]:
    """Ask the agent what users will ask, until it answers as the plan expects; then see that it asked through the proxy.

    `target` is the plan's with its keys put in; `attempts` gives what the proxy has written of the agent's own requests so
    far, `worker_said` the last lines that a worker which the drill started has printed; `detour` is what in the agent's
    environment leads past the proxy.

    `wait_s` is how long it may take to start; `alive` False: the worker that the drill started has ended. Raises Refused.
    """
    give_up_ns = clock.mono_ns() + round(wait_s * 1e9)
    before = await proxy_counts()
    tried = 0
    misfit_ns: int | None = None
    while True:
        answer = await _probe_agent(plan, target, asker, clock, tried)
        tried += 1
        if answer.answer == "ok":
            break
        now_ns = clock.mono_ns()
        misfit_ns = (misfit_ns or now_ns) if _misfits(answer) else None
        if not alive() or now_ns >= give_up_ns or (misfit_ns is not None and now_ns - misfit_ns >= SETTLED_S * 1e9):
            raise no_answer(
                plan,
                answer,
                before,
                await proxy_counts(),
                proxy_url=proxy_url,
                alive=alive(),
                said=await worker_said(),
                detour=detour,
            )
        await asyncio.sleep(0.2)
    found = [
        Line(
            check="target_answers",
            status="pass",
            why=f"status {answer.status} in {(answer.end_ns - answer.sent_ns) / 1e6:.0f} ms",
        )
    ]
    for more in range(3):
        counts = await proxy_counts()
        if _seen(counts) > _seen(before):
            passed = _seen(counts) - _seen(before)
            found.append(
                Line(
                    check="agent_uses_proxy",
                    status="pass",
                    why=f"{passed} attempt{'s' if passed != 1 else ''} came through",
                )
            )
            found.append(endpoint_answers(attempts()))
            return found
        await _probe_agent(plan, target, asker, clock, tried + more)
    https = _no_http(before, await proxy_counts())
    if detour is not None and not https:
        said = detour.said(own_worker=plan.worker is not None)
        raise Refused(
            "agent_uses_proxy",
            found=f"answers of the agent, and no request of its through the proxy; {said}",
            wanted=f"an agent that asks {proxy_url} and no other proxy",
            remedy=detour.remedy(own_worker=plan.worker is not None),
        )
    raise Refused(
        "agent_uses_proxy",
        found="answers of the agent, and no request of its through the proxy" + (f"; {https}" if https else ""),
        wanted=f"an agent whose model base URL is {proxy_url}",
        remedy=f"set its base URL to {proxy_url}, http and not https: TLS is spoken between the proxy and the endpoint"
        if https
        else f"export MODEL_BASE_URL={proxy_url}, or what your agent reads; if a cache answered, put {{nonce}} into the prompt",
    )


def endpoint_answers(attempts: Sequence[Mapping[str, Any]]) -> Line:
    """See that the real endpoint gave the agent an answer: one that is on its fallback already has no baseline."""
    statuses = [attempt.get("status") for attempt in attempts]
    if any(isinstance(status, int) and 200 <= status < 400 for status in statuses) or not statuses:
        return Line(
            check="endpoint_answers",
            status="pass",
            why=f"status {', '.join(str(s) for s in statuses[:5]) or 'not seen yet'}",
        )
    asked = dict.fromkeys(f"{attempt.get('method')} {attempt.get('path')}" for attempt in attempts)
    raise Refused(
        "endpoint_answers",
        found=f"status {', '.join(str(s) for s in statuses[:5])} of the real endpoint to the agent, which asked for "
        f"{', '.join(list(asked)[:3])}; its answer came from elsewhere",
        wanted="an answer of the real endpoint: there is no baseline without one",
        remedy=_path_remedy([str(attempt.get("path")) for attempt in attempts if attempt.get("status") in (404, 405)])
        or "mend the agent's key, model or path",
    )


def _misfits(answer: Answer) -> bool:
    """Whether an answer came, with a status as it should be, and the plan's pointer leads nowhere in it."""
    return answer.result == "answered" and answer.answer == "empty" and answer.why.startswith(NOTHING_AT)


def _path_remedy(lost: Sequence[str]) -> str:
    """What to do about paths that the endpoint does not know: most often one `/v1` too many or too few."""
    if any(path.startswith("/v1/v1/") for path in lost):
        return "one /v1 too many: the agent adds its own, so give it MODEL_BASE_URL, which has none"
    if lost and not any(path.startswith("/v1") for path in lost):
        return "if its API begins with /v1, the agent adds none: give it OPENAI_BASE_URL, which ends in /v1"
    return ""


def _no_http(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Say that something reached the proxy which was no HTTP; empty where nothing did."""
    if int(after.get("refused_heads", 0)) <= int(before.get("refused_heads", 0)):
        return ""
    return "what reached the proxy was no HTTP: most likely TLS, from a base URL that begins with https://"


def _seen(counts: Mapping[str, Any]) -> int:
    return int(counts.get("requests", 0))


async def _probe_agent(plan: Plan, target: Target, asker: Asker, clock: Clock, nth: int) -> Answer:
    due_ns = clock.mono_ns()
    request = prepare(
        target,
        id=f"preflight{nth + 1}",
        trace=PROBE_TRACE + secrets.token_hex(8),
        span=secrets.token_hex(8),
        nonce="dmn" + secrets.token_hex(8),
        payload=nth % len(target.payloads) if target.payloads else None,
    )
    return await asker.ask(request, due_ns=due_ns, time_limit_s=plan.traffic.time_limit_s)


def no_answer(
    plan: Plan,
    answer: Answer,
    before: dict[str, Any],
    after: dict[str, Any],
    *,
    proxy_url: str,
    alive: bool,
    said: Sequence[str],
    detour: Detour | None = None,
) -> Refused:
    """Say why the agent did not answer, with what the proxy knows of it and what the agent itself printed last."""
    found = f"{outcome_of(answer)} ({answer.why})" if answer.why else outcome_of(answer)
    place = f"target_answers {plan.target.url.partition('?')[0]}"
    wanted = "an answer as /target/expect says"
    last = f"; the last it printed: {said[-1]}" if said else ""
    if not alive:
        return Refused(
            place,
            found="a worker that ended before it answered" + (last or ", without a word"),
            wanted=wanted,
            remedy="mend the agent, or /worker/cmd in the plan",
        )
    https = _no_http(before, after)
    if https:
        return Refused(
            place,
            found=f"{found}; {https}",
            wanted=wanted,
            remedy=f"set its base URL to {proxy_url}, http and not https: TLS is spoken between the proxy and the endpoint",
        )
    if plan.worker is not None and answer.result in ("refused", "reset"):
        port = urlsplit(plan.target.url).port
        return Refused(
            place,
            found=f"{found} for {plan.worker.ready_s:g} s{last}",
            wanted=wanted,
            remedy=f"see that it listens on port {port or 'of /target/url'}, or raise worker.ready_s",
        )
    if answer.result in ("refused", "reset"):
        return Refused(
            place,
            found=found,
            wanted=wanted,
            remedy="start the agent, or let the drill do it: --cmd 'python3 agent.py'",
        )
    if detour is not None and _seen(after) == _seen(before):
        return Refused(
            place,
            found=f"{found}{last}; no request of its came to the proxy, and {detour.said(own_worker=plan.worker is not None)}",
            wanted=wanted,
            remedy=detour.remedy(own_worker=plan.worker is not None),
        )
    if answer.result == "timeout":
        return Refused(
            place,
            found=found + last,
            wanted=wanted,
            remedy="raise traffic.time_limit_s, or see what the agent waits for",
        )
    if _misfits(answer):
        pointer = plan.target.expect.pointer or ""
        there = answer.why.partition("; there is ")[2].removesuffix(" and more").split(", ")
        meant = near(pointer, there)
        return Refused(
            place,
            found=found,
            wanted=wanted,
            remedy=f"write /target/expect/pointer in the plan as {meant}"
            if meant
            else "correct /target/expect/pointer in the plan: it is the JSON pointer to the answer's text",
        )
    # A worker of ours has been ended by the time this is read; only somebody else's can still be asked.
    curl = curl_line(plan.target) if plan.worker is None else None
    return Refused(
        place,
        found=found + last,
        wanted=wanted,
        remedy=f"see what it says: {curl}" if curl else "see why in what the agent logs",
    )
