"""Evidence on a canary from Prometheus: the recording rules of the kit, asked once each, at one instant, written down whole.

1. Only the kit's rules are asked for (`kits/canary/rules.yaml`), of one service. What a rule counts is reviewed in git, where
   rules live; what is asked here is the same for everybody.
2. The build is the label `artifact`: a canary whose numbers are another build's is refused, and so are two builds in one
   window. The baseline is the one other build that has traffic; None: there is none.
3. What is no finite number, missing, doubled, older than a minute, or came with a warning is refused. Requests are cut down
   and errors up to whole ones: `increase` reckons in fractions.
4. Loopback, or a host that a plan names with its owner and the command line repeats; the connected address counts. No redirect
   is followed, no proxy asked. A token comes from the environment, goes into no file, and over no open wire to another machine.
"""

import contextlib
import json
import math
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal
from urllib.parse import SplitResult, urlencode

import msgspec

import drillmaster
from drillmaster import strict
from drillmaster.clock import rfc3339
from drillmaster.errors import Problem, Refused, one_line
from drillmaster.intake import read_strict
from drillmaster.intake.metrics import artifact_of
from drillmaster.plan import Permit
from drillmaster.sanity.permission import is_loopback, permission_problems, split_url
from drillmaster.screen import screen_text, screen_url

__all__ = ["RULES", "TOKEN", "Ask", "Collector", "CollectorPlan", "canary_metrics", "reach", "read_plan", "sample"]

RULES: dict[str, str] = {
    "requests": "canary:requests:increase10m",
    "errors": "canary:errors:increase10m",
    "p95_ms": "canary:latency_p95_ms:rate10m",
    "healthy_hosts": "canary:healthy_hosts:sum",
    "watched_s": "canary:watched_seconds:last10m",
    "coverage": "canary:coverage:ratio10m",
}
TOKEN = "PROMETHEUS_TOKEN"  # noqa: S105 - the name of a variable
MAX_RULE_AGE_S = 60.0
"""A rule that was last evaluated before that is of a Prometheus that has stopped, or of rules that were taken out."""
TIME_LIMIT_S = 15.0
_CAP_BYTES = 1 << 20
_LOAD = (
    "load the rules: drillmaster evidence rules > canary-rules.yaml, name it under rule_files, and reload Prometheus"
)

Ask = Callable[[str], bytes]
"""From a path with its query to the body of the answer. Raises Problem."""


class _Target(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    url: str
    permit: Permit | None = None


class CollectorPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a collector is, and who allowed that it is asked. `permit` is needed for another host than loopback."""

    kind: Literal["collector"]
    version: Literal[1]
    service: str
    target: _Target


class Collector(msgspec.Struct, frozen=True, kw_only=True):
    """A Prometheus that may be asked. `outside`: it is permitted, and may be another machine."""

    parts: SplitResult
    outside: bool
    token: str | None

    @property
    def host(self) -> str:
        """Its URL, without user info and query."""
        return screen_url(self.parts.geturl())


def read_plan(path: Path) -> CollectorPlan:
    """Read a plan of a collector. Raises Problem."""
    return read_strict(path, CollectorPlan)


def reach(
    url: str,
    permit: Permit | None,
    *,
    place: str,
    permit_host: str | None,
    environ: Mapping[str, str],
    now_ns: int,
) -> Collector:
    """Say whether a URL may be asked, and how. Raises Problem, before anything is sent (rule 4)."""
    parts = split_url(url)
    if parts is None or parts.query or parts.fragment or parts.username is not None or parts.password is not None:
        raise Problem(
            place,
            found=repr(screen_url(url))[:100],
            wanted="http://HOST:PORT of a Prometheus, without user info and query",
            remedy=f"write --prometheus http://127.0.0.1:9090; a token goes into ${TOKEN}",
        )
    host = parts.hostname or ""
    if permit is None and not is_loopback(host):
        raise Refused(
            place,
            found=f"{host}, which is not loopback",
            wanted="permission: another host is asked with its owner's leave",
            remedy="write a plan (kind: collector, version: 1, service, target: {url, permit: {host, owner, until, "
            f"max_per_s, max_requests}}}}), then: --plan PLAN.yaml --permit-host {host}",
        )
    problems = permission_problems(
        url,
        permit,
        place=place,
        wall_ns=now_ns,
        permit_host=permit_host,
        total_s=TIME_LIMIT_S,
        per_s=len(RULES) + 1,
        requests=len(RULES) + 1,
        calmer=f"ask the owner for {len(RULES) + 1} requests in one second",
    )
    for problem in problems:
        raise problem
    token = environ.get(TOKEN) or None
    if token is not None and (not token.isascii() or not token.isprintable()):
        raise Problem(f"${TOKEN}", found="characters that no token has", wanted="a token", remedy=f"export {TOKEN}=...")
    if token is not None and parts.scheme == "http" and not is_loopback(host):
        raise Refused(
            f"${TOKEN}",
            found=f"a token for {host} over an open wire",
            wanted="https, where a token goes to another machine",
            remedy=f"name its https URL, or: unset {TOKEN}",
        )
    return Collector(parts=parts, outside=permit is not None and not is_loopback(host), token=token)


def asking(collector: Collector, *, limit_s: float = TIME_LIMIT_S) -> Ask:
    """Make the function that asks over HTTP, each question on a connection of its own, for `limit_s` at most from end to end."""

    def ask(path: str) -> bytes:
        from http.client import HTTPConnection, HTTPException, HTTPSConnection
        from threading import Event, Timer

        parts = collector.parts
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=limit_s)
        headers = {"accept": "application/json", "user-agent": f"drillmaster/{drillmaster.__version__}"}
        if collector.token is not None:
            headers["authorization"] = f"Bearer {collector.token}"
        late = Event()

        def cut() -> None:
            late.set()
            with contextlib.suppress(OSError, AttributeError):
                connection.sock.shutdown(socket.SHUT_RDWR)

        # A socket's own limit starts again with each byte that drips in.
        timer = Timer(limit_s, cut)
        timer.daemon = True
        timer.start()
        try:
            connection.connect()
            _may_be(connection.sock, collector)
            connection.request("GET", parts.path.rstrip("/") + path, headers=headers)
            answer = connection.getresponse()
            body = answer.read(_CAP_BYTES + 1)
            status = answer.status
        except (OSError, HTTPException, ValueError) as error:
            found = one_line(getattr(error, "strerror", None) or type(error).__name__).lower()
            raise _silent(collector, limit_s if late.is_set() else None, found) from None
        finally:
            timer.cancel()
            connection.close()
        if late.is_set():
            raise _silent(collector, limit_s, "")
        if len(body) > _CAP_BYTES:
            raise Problem(collector.host, found="an answer over 1 MiB", wanted="a few numbers", remedy=_LOAD)
        if status != 200:
            said = screen_text(one_line(body[:120].decode("utf-8", "replace")))
            remedy = {
                401: f"export {TOKEN}=...",
                403: f"export {TOKEN}=... of somebody who may read",
                404: "name the URL before /api/v1",
            }.get(status, "name the Prometheus itself")
            raise Problem(collector.host, found=f"status {status}: {said}", wanted="200", remedy=remedy)
        return body

    return ask


def _may_be(sock: socket.socket, collector: Collector) -> None:
    """Refuse a connection that a name led to another machine."""
    peer = sock.getpeername()[0]
    if not collector.outside and not is_loopback(peer):
        raise Refused(
            collector.host,
            found=f"the address {peer}, which is not loopback",
            wanted="loopback: the connected address counts",
            remedy=f"write a plan with `permit:`, then: --plan PLAN.yaml --permit-host {collector.parts.hostname}",
        )


def _silent(collector: Collector, limit_s: float | None, found: str) -> Problem:
    return Problem(
        collector.host,
        found=found if limit_s is None else f"no whole answer in {limit_s:g} s",
        wanted="a Prometheus that answers",
        remedy="see that it runs there: curl -sS URL/-/ready",
    )


def canary_metrics(ask: Ask, *, host: str, service: str, artifact: str, now_ns: int) -> dict[str, Any]:
    """Ask for a canary's numbers as of `now_ns`, wall time; give the evidence. Raises Problem (rules 2 and 3)."""
    artifact = artifact_of(artifact)
    if not service.strip() or len(service) > 200 or one_line(service) != service:
        raise Problem(
            "--service", found=strict.shown(service), wanted="a service's name", remedy="write --service NAME"
        )
    now_ns -= now_ns % 1_000_000
    at = f"{now_ns / 1e9:.3f}"
    quoted = json.dumps(service, ensure_ascii=False)
    queries, arms = [], {}
    for field, rule in RULES.items():
        query = f"{rule}{{service={quoted}}}"
        rows = _rows(ask, query, at, host)
        arms[field] = rows
        queries.append((query, rows))
    _evaluated(ask, service=quoted, at=at, host=host, now_ns=now_ns)
    mine = _canary(arms["requests"], artifact, host)
    other = _baseline(arms["requests"], host)
    keys = {"canary": mine, **({} if other is None else {"baseline": other})}
    found = {name: {field: _one(arms[field], key, RULES[field], host) for field in RULES} for name, key in keys.items()}
    numbers = found["canary"]
    watched_s = numbers["watched_s"]
    if watched_s <= 0:
        raise Problem(host, found="a canary that was not watched yet", wanted="a window", remedy="wait, and ask again")
    return {
        "kind": "canary-metrics",
        "version": 1,
        "subject": {"service": service, "artifact": artifact},
        "produced_by": {"collector": "prometheus", "host": host, "by": f"drillmaster {drillmaster.__version__}"},
        "produced_at": rfc3339(now_ns, digits=3),
        "window": {"start": rfc3339(now_ns - round(watched_s * 1e9), digits=3), "end": rfc3339(now_ns, digits=3)},
        "data": {
            "canary": _counted(numbers, host),
            **({} if other is None else {"baseline": {**_counted(found["baseline"], host), "artifact": other[1]}}),
            "coverage_ratio": min(1.0, numbers["coverage"]),
            "queries": [
                {
                    "query": query,
                    "at": rfc3339(now_ns, digits=3),
                    "value": {n: rows[k] for n, k in keys.items() if k in rows},
                }
                for query, rows in queries
            ],
        },
    }


_Rows = dict[tuple[str, str], str]
"""By the labels canary and artifact."""


def _rows(ask: Ask, query: str, at: str, host: str) -> _Rows:
    body = ask("/api/v1/query?" + urlencode({"query": query, "time": at}))
    said = strict.load(body, place=host, fmt="json")
    if not isinstance(said, dict) or said.get("status") != "success" or not isinstance(said.get("data"), dict):
        why = strict.shown(said.get("error")) if isinstance(said, dict) else strict.shown(said)
        raise Problem(host, found=f"no answer to {query}: {why}", wanted="an answer of Prometheus' API", remedy=_LOAD)
    if said.get("warnings"):
        raise Problem(
            host,
            found=f"an answer with warnings: {strict.shown(said['warnings'])}",
            wanted="a whole answer: part of the series is no evidence",
            remedy="mend what the collector warns of, and ask again",
        )
    found: _Rows = {}
    result = said["data"].get("result")
    for row in result if isinstance(result, list) else ():
        try:
            metric, (_, value) = row["metric"], row["value"]
            key = (str(metric.get("canary", "")), str(metric.get("artifact", "")))
        except (TypeError, KeyError, ValueError, AttributeError):
            raise Problem(
                host, found="a row that is no sample", wanted="a vector of Prometheus' API", remedy=_LOAD
            ) from None
        if key in found or not isinstance(value, str):
            raise Problem(
                host,
                found=f"two series for one build in {query}",
                wanted="one: the rules sum by service, canary and artifact alone",
                remedy=_LOAD,
            )
        found[key] = value
    return found


def _evaluated(ask: Ask, *, service: str, at: str, host: str, now_ns: int) -> None:
    """Refuse numbers of rules that are evaluated no more: an instant query still finds them five minutes later."""
    # Each rule's time has a label of its own, or `or` would take the first for all.
    times = " or ".join(
        f'label_replace(min(timestamp({rule}{{service={service},canary="1"}})), "rule", "{field}", "", "")'
        for field, rule in RULES.items()
    )
    query = f"min({times})"
    rows = _rows(ask, query, at, host)
    value = next(iter(rows.values()), None)
    age_s = math.nan if value is None else now_ns / 1e9 - _number(value)
    if not abs(age_s) <= MAX_RULE_AGE_S:
        raise Problem(
            host,
            found="rules "
            + (
                "without a time"
                if value is None or not math.isfinite(age_s)
                else f"of which one is of {age_s:.0f} s ago"
            ),
            wanted=f"rules that were evaluated in the last {MAX_RULE_AGE_S:g} s",
            remedy=_LOAD,
        )


def sample(ask: Ask, query: str, at: str, host: str) -> float | None:
    """Ask for one number without labels; None where there is no series. NaN for what is none. Raises Problem."""
    try:
        rows = _rows(ask, query, at, host)
    except Problem as problem:
        how = "ask it by hand and see: promtool query instant URL QUERY"
        raise Problem(problem.place, found=problem.found, wanted=problem.wanted, remedy=how) from None
    if len(rows) > 1:
        raise Problem(host, found=f"{len(rows)} series for {query}", wanted="one number", remedy="sum them")
    return next((_number(value) for value in rows.values()), None)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _canary(requests: _Rows, artifact: str, host: str) -> tuple[str, str]:
    builds = {key[1]: value for key, value in requests.items() if key[0] == "1"}
    if not builds:
        raise Problem(
            host,
            found=f'no series of {RULES["requests"]} with canary="1"',
            wanted="the canary's numbers: no data is no health",
            remedy=_LOAD,
        )
    if artifact not in builds:
        seen = ", ".join(one_line(build[:19]) or "none" for build in sorted(builds)[:3])
        raise Problem(
            host,
            found=f"a canary with the artifact {seen}",
            wanted=artifact[:19],
            remedy="name the build that runs, or label its targets with `artifact`, its digest",
        )
    others = [build for build, value in builds.items() if build != artifact and _number(value) != 0]
    if others:
        raise Problem(
            host,
            found=f"traffic of {len(others) + 1} builds behind the canary in one window",
            wanted="one build",
            remedy="let a whole window pass with the one build alone, and ask again",
        )
    return "1", artifact


def _baseline(requests: _Rows, host: str) -> tuple[str, str] | None:
    builds = [key for key, value in requests.items() if key[0] == "0" and _number(value) != 0]
    if len(builds) > 1:
        raise Problem(
            host,
            found=f"traffic of {len(builds)} builds behind the baseline in one window",
            wanted="one build",
            remedy="let a whole window pass with the one build alone, and ask again",
        )
    return builds[0] if builds else None


def _one(rows: _Rows, key: tuple[str, str], rule: str, host: str) -> float:
    said = rows.get(key)
    value = math.nan if said is None else _number(said)
    if not math.isfinite(value) or value < 0:
        which = "canary" if key[0] == "1" else "baseline"
        raise Problem(
            f"{host}: {rule}",
            found=f"{'nothing' if said is None else one_line(said[:40])} for the {which}",
            wanted="a number: where there was no traffic there is none, and no evidence",
            remedy="send it traffic, let a whole window pass, and ask again",
        )
    return value


def _counted(numbers: Mapping[str, float], host: str) -> dict[str, Any]:
    requests = math.floor(numbers["requests"] + 1e-6)
    errors = math.ceil(numbers["errors"] - 1e-6)
    if numbers["errors"] <= numbers["requests"]:
        errors = min(errors, requests)  # both were whole before they were reckoned
    return {
        "requests": requests,
        "errors": errors,
        "p95_ms": numbers["p95_ms"],
        "healthy_hosts": math.floor(numbers["healthy_hosts"]),
    }
