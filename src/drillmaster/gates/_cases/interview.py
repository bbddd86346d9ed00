"""One interview on paper, and what has to be wrong with it, or stricter in the policy, for each check to go red."""

from collections.abc import Iterator
from typing import Any

import msgspec

from drillmaster.gates import Case
from drillmaster.gates.interview import Apdex, Goodput, InterviewGate, LevelLimits, Slo
from drillmaster.interviews import Calls, Interview, Level
from drillmaster.verdict import Status

__all__ = ["cases"]

_with = msgspec.structs.replace
_N = 100
_URL = "http://127.0.0.1:8000/v1"


def _calls(each_s: float) -> Calls:
    return Calls(
        due_s=[n * 0.1 for n in range(_N)],
        end_s=[n * 0.1 + each_s for n in range(_N)],
        outcome=[0] * _N,
        kind=[""] * _N,
        times={"latency": [each_s] * _N},
        tokens=[10] * _N,
        attempts=[1] * _N,
    )


_COLD = Level(label="cold", kind="cold", n=1, ok_s=(2.0,))
_WARM = Level(label="warm_c1", kind="closed", n=_N, ok_s=(0.5,) * _N, calls=_calls(0.5))
_DRAIN = Level(label="drain", kind="drain", n=_N, ok_s=(0.5,) * _N, calls=_calls(0.5))
_GOOD = Interview(
    name="20261130T080000Z-1a2b",
    url=_URL,
    declared=("cold", "warm_c1"),
    levels=(_COLD, _WARM),
    time_limit_s=60.0,
    idle_s=1800.0,
    reader="Cy",
    authors=("Ada <ada@example.com>",),
    payload_sha256="sha256:" + "0" * 64,
    age_s=60.0,
)
_FAILED = _with(_WARM, failed={"http_429": 50}, ok_s=(0.5,) * 50)
_SLO = Slo(latency_s=1)


def _gate(**more: Any) -> InterviewGate:
    limits = {"p95_s": 1.0, "error_rate": 0.05, **more.pop("level", {})}
    return InterviewGate(decide="observed", cold_max_s=10.0, levels={"warm_c1": LevelLimits(**limits)}, **more)


def _one(check: str, status: Status, evidence: Interview, gate: InterviewGate) -> Case:
    return Case(check=check, status=status, evidence=evidence, gate=gate)


def cases() -> Iterator[Case]:
    """Give each check a red and a green case."""
    signed = _gate(
        max_age_s=3600.0,
        url=_URL,
        payload_sha256=_GOOD.payload_sha256,
        min_idle_s=1800.0,
        level={
            "error_rates": {"http_429": 0.01},
            "goodput": Goodput(slo=_SLO, min_ratio=0.9, min_per_s=1.0),
            "apdex": Apdex(t_s=1.0, min_score=0.9),
            "max_requests": 200,
            "max_tokens": 2_000,
            "min_tokens_per_s": 10.0,
            "min_calls_per_s": 1.0,
        },
    )
    drained = _with(_GOOD, declared=("cold", "drain"), levels=(_COLD, _DRAIN))
    drain = InterviewGate(decide="observed", cold_max_s=10.0, levels={"drain": LevelLimits(drain_s=60.0)})
    green = (
        "complete reader fresh url payload time-limit idle cold warm_c1.usable warm_c1.errors warm_c1.errors.http_429 "
        "warm_c1.failures warm_c1.goodput warm_c1.goodput_per_s warm_c1.apdex warm_c1.requests warm_c1.tokens "
        "warm_c1.tokens_per_s warm_c1.calls_per_s warm_c1.p95"
    )
    for check in green.split():
        yield _one(check, "pass", _GOOD, signed)
    yield _one("drain.drain", "pass", drained, drain)
    yield _one("drain.drain", "fail", drained, _with(drain, levels={"drain": LevelLimits(drain_s=5.0)}))
    yield from _refused()
    yield from _failed()


def _refused() -> Iterator[Case]:
    gate = _gate()
    yield _one("complete", "refused", _with(_GOOD, levels=(_COLD,)), gate)
    yield _one("reader", "refused", _with(_GOOD, reader="Ada"), gate)
    yield _one("fresh", "refused", _with(_GOOD, age_s=7200.0), _gate(max_age_s=3600.0))
    yield _one("fresh", "refused", _with(_GOOD, age_s=None), _gate(max_age_s=3600.0))
    yield _one("url", "refused", _GOOD, _gate(url="http://127.0.0.1:9/v1"))
    yield _one("payload", "refused", _GOOD, _gate(payload_sha256="sha256:" + "1" * 64))
    yield _one("time-limit", "refused", _with(_GOOD, time_limit_s=1.0), gate)
    yield _one("idle", "refused", _with(_GOOD, idle_s=None), _gate(min_idle_s=1800.0))
    yield _one("warm_c1.usable", "refused", _level(_with(_WARM, n=0, ok_s=())), gate)
    yield _one("warm_c1.usable", "refused", _level(_with(_WARM, void=("sent late",))), gate)
    silent = InterviewGate(decide="observed", cold_max_s=10.0, levels={"warm_c1": LevelLimits(p95_s=1.0)})
    yield _one("warm_c1.failures", "refused", _level(_FAILED), silent)


def _failed() -> Iterator[Case]:
    gate = _gate()
    yield _one("cold", "fail", _with(_GOOD, levels=(_with(_COLD, ok_s=(11.0,)), _WARM)), gate)
    yield _one("warm_c1.p95", "fail", _level(_with(_WARM, ok_s=(1.5,) * _N)), gate)
    yield _one("warm_c1.errors", "fail", _level(_FAILED), gate)
    yield _one("warm_c1.errors.http_429", "fail", _level(_FAILED), _gate(level={"error_rates": {"http_429": 0.01}}))
    quick = Slo(latency_s=0.1)
    for check, limits in {
        "goodput": {"goodput": Goodput(slo=quick, min_ratio=0.9)},
        "goodput_per_s": {"goodput": Goodput(slo=quick, min_per_s=1.0)},
        "apdex": {"apdex": Apdex(t_s=0.01, min_score=0.9)},
        "max_requests": {"max_requests": 10},
        "max_tokens": {"max_tokens": 10},
        "min_tokens_per_s": {"min_tokens_per_s": 1e6},
        "min_calls_per_s": {"min_calls_per_s": 1e6},
    }.items():
        told = check.removeprefix("max_").removeprefix("min_")
        yield _one(f"warm_c1.{told}", "fail", _GOOD, _gate(level=limits))


def _level(warm: Level) -> Interview:
    return _with(_GOOD, levels=(_COLD, warm))
