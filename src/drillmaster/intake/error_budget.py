"""The error budget as a collector counted it: two questions to Prometheus, at one instant, over one span that lies behind.

1. Counted is one counter with a label for its result, of one service: all of it, and what of it failed. The names can be given;
   without them they are those that most HTTP libraries export.
2. `increase` alone takes a series that was born in the span for one that began at its first sample. Such a series counts whole.
3. Where no series of the span's beginning is there the span was not watched, and that is refused; so are no data, what is no
   finite number, and an answer with warnings. Requests are cut down and errors up to whole ones.
"""

import json
import math
import re

import drillmaster
from drillmaster import strict
from drillmaster.clock import rfc3339
from drillmaster.errors import Problem
from drillmaster.gates.cutover import ErrorBudget
from drillmaster.intake.prometheus import Ask, sample

__all__ = ["measure"]

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_FAILED = re.compile(r'[a-zA-Z_][a-zA-Z0-9_]*(?:=|!=|=~|!~)"[^"\\\n{}]*"')


def measure(ask: Ask, *, host: str, service: str, counter: str, failed: str, span_s: int, now_ns: int) -> ErrorBudget:
    """Ask what was counted in the `span_s` seconds before `now_ns`, wall time. `failed` selects errors: `status=~"5.."`."""
    if _NAME.fullmatch(counter) is None:
        raise Problem(
            "--counter", found=strict.shown(counter), wanted="the name of a counter", remedy="add --counter NAME"
        )
    if _FAILED.fullmatch(failed) is None:
        raise Problem(
            "--failed",
            found=strict.shown(failed),
            wanted='one matcher, such as status=~"5.."',
            remedy="add --failed MATCHER",
        )
    now_ns -= now_ns % 1_000_000_000
    of = f"service={json.dumps(service, ensure_ascii=False)}"
    at = f"{now_ns // 1_000_000_000}"
    began = f"count({counter}{{{of}}} offset {span_s}s)"
    requests_query, errors_query = _increase(counter, of, span_s), _increase(counter, f"{of},{failed}", span_s)
    watched = sample(ask, began, at, host)
    requests = sample(ask, requests_query, at, host)
    errors = sample(ask, errors_query, at, host)
    if watched is None or requests is None or not math.isfinite(requests) or requests < 1:
        found = "no request" if watched is not None else "no series at its beginning"
        raise Problem(
            host,
            found=f"{found} of {counter}{{{of}}} in the {span_s} s before {rfc3339(now_ns, digits=0)}",
            wanted="a path that had traffic, and was watched, all that time",
            remedy="name a shorter span, --over 1h, or your counter: --counter NAME",
        )
    # No series of errors is no error; the service's own series were there.
    failures = 0.0 if errors is None else errors
    if not math.isfinite(failures) or failures < 0:
        raise Problem(
            host, found=f"{failures} errors", wanted="a number of errors", remedy="see what the collector counts"
        )
    return ErrorBudget(
        kind="error-budget",
        version=1,
        service=service,
        source=f"prometheus {host}: {requests_query}; {errors_query}",
        window_start=rfc3339(now_ns - span_s * 1_000_000_000, digits=0),
        window_end=rfc3339(now_ns, digits=0),
        requests=math.floor(requests + 1e-6),
        errors=math.ceil(failures - 1e-6),
        produced_by=f"drillmaster {drillmaster.__version__}",
        produced_at=rfc3339(now_ns, digits=0),
    )


def _increase(counter: str, of: str, span_s: int) -> str:
    """Rule 2, as PromQL."""
    series, before = f"{counter}{{{of}}}", f"{counter}{{{of}}} offset {span_s}s"
    span = f"[{span_s}s]"
    return f"sum((increase({series}{span}) and {before}) or (last_over_time({series}{span}) unless {before}))"
