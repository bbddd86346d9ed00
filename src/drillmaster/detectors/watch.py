"""The built-in detector: burn rates over a timeline as it grows, and alerts in Alertmanager's form to one URL.

1. Lines are read from the start of the file, by their own times; it is judged twice a second at the wall clock's now. A line of
   before counts as if it had been seen then.
2. An alert is sent when it begins to fire, every `repeat_s` while it fires, and once when it is over. What could not be delivered
   is tried again with the next step, and counted.
3. It knows nothing of injections. It says when it began, and has the labels that it was given.
"""

import hashlib
import http.client
import json
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

from drillmaster.clock import Clock, parse_rfc3339, rfc3339
from drillmaster.detectors.watching import LogTail
from drillmaster.errors import Problem, Refused
from drillmaster.rules.burn_rate import Tally, Watch, burning
from drillmaster.sanity import is_loopback

__all__ = ["COUNTED", "Change", "Counted", "Detector", "Sender", "follow", "payload", "refuse_missing"]

EVERY_S = 0.5
_TIME_LIMIT_S = 5.0
_MOST_READS = 64  # of a MiB each; what is left of a long file comes with the next step
_ENDS = frozenset({"drill_ended"})

Counted = Literal["tool_attempted", "tool_finished", "user_request"]
COUNTED: tuple[Counted, ...] = ("tool_attempted", "tool_finished", "user_request")


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """An alert that began or ended."""

    rule: str
    severity: str
    state: Literal["firing", "resolved"]
    at: str
    burn_rates: tuple[float, ...] = ()
    """Over the long and the short window of each pair that burns."""

    @property
    def words(self) -> str:
        if self.state == "resolved":
            return f"{self.rule} {self.severity} is over"
        return f"{self.rule} {self.severity} fires: burn rates {', '.join(f'{rate:.3g}' for rate in self.burn_rates)}"


class _Open(msgspec.Struct):
    """An alert that fires."""

    since_ns: int
    sent_ns: int | None = None
    over_ns: int | None = None


class Sender:
    """Posts to one URL on loopback. `bearer` goes into the Authorization header."""

    def __init__(self, url: str, bearer: str | None) -> None:
        parts = urlsplit(url)
        if (
            parts.scheme != "http"
            or not parts.hostname
            or parts.username is not None
            or not is_loopback(parts.hostname)
        ):
            raise Refused(
                "--to",
                found="another machine, or no http URL",
                wanted="http://127.0.0.1:PORT/PATH",
                remedy="send to the drill's listener here; for others, have Prometheus run `drillmaster detector rules`",
            )
        self._host, self._port = parts.hostname, parts.port or 80
        self._path = parts.path or "/"
        self._headers = {"Content-Type": "application/json"}
        if bearer is not None:
            self._headers["Authorization"] = f"Bearer {bearer}"

    def __call__(self, body: bytes) -> str:
        """Deliver; the reason where it could not be, else nothing."""
        connection = http.client.HTTPConnection(self._host, self._port, timeout=_TIME_LIMIT_S)
        try:
            connection.request("POST", self._path, body, self._headers)
            status = connection.getresponse().status
        except (OSError, http.client.HTTPException) as error:
            return type(error).__name__
        finally:
            connection.close()
        return "" if 200 <= status < 300 else f"status {status}"


def payload(
    watch: Watch, labels: Mapping[str, str], severity: str, since_ns: int, over_ns: int | None
) -> dict[str, Any]:
    """Make a delivery as Alertmanager's webhooks have it, version 4, of one alert."""
    own = {**labels, "alertname": watch.rule, "severity": severity}
    state = "firing" if over_ns is None else "resolved"
    fingerprint = hashlib.sha256(json.dumps(sorted(own.items())).encode()).hexdigest()[:16]
    alert = {
        "status": state,
        "labels": own,
        "annotations": {"summary": f"{watch.rule}: failures burn the error budget"},
        "startsAt": rfc3339(since_ns),
        "endsAt": "0001-01-01T00:00:00Z" if over_ns is None else rfc3339(over_ns),
        "generatorURL": "",
        "fingerprint": fingerprint,
    }
    return {
        "receiver": "drill",
        "status": state,
        "alerts": [alert],
        "groupLabels": {"alertname": watch.rule},
        "commonLabels": own,
        "commonAnnotations": alert["annotations"],
        "externalURL": "",
        "version": "4",
        "groupKey": f'{{}}:{{alertname="{watch.rule}", severity="{severity}"}}',
        "truncatedAlerts": 0,
    }


class Detector:
    """One watch over one timeline."""

    def __init__(
        self,
        watch: Watch,
        log: Path,
        send: Callable[[bytes], str],
        clock: Clock,
        *,
        count: Counted = "tool_attempted",
        tool: str | None = None,
        labels: Mapping[str, str] | None = None,
        repeat_s: float = 30.0,
    ) -> None:
        self._watch = watch
        self._tail = LogTail(log, from_start=True)
        self._send = send
        self._clock = clock
        self._count = count
        self._tool = tool
        self._labels = dict(labels or {})
        self._repeat_ns = round(repeat_s * 1e9)
        self._tally = Tally(max(pair.long_s for pair in watch.pairs))
        self._open: dict[str, _Open] = {}
        self.events = self.bad = self.sent = self.failed = 0
        self.last_failure = ""
        self.ended = False

    def step(self) -> list[Change]:
        """Read what is new, judge, send; what began or ended."""
        for _ in range(_MOST_READS):
            seen = self._tail.lines
            for line in self._tail.new():
                self._take(line)
            if self._tail.lines == seen:
                break
        now_ns = self._clock.wall_ns()
        found = burning(self._watch, self._tally, math.ceil(now_ns / 1e9))  # the second under way counts
        said: list[Change] = []
        at, rule = rfc3339(now_ns), self._watch.rule
        for severity in self._watch.severities:
            burns = [burn for burn in found if burn.pair.severity == severity and burn.burns]
            open_ = self._open.get(severity)
            if burns and (open_ is None or open_.over_ns is not None):
                self._open[severity] = _Open(since_ns=now_ns)
                rates = tuple(rate for burn in burns for rate in (burn.long, burn.short))
                said.append(Change(rule=rule, severity=severity, state="firing", at=at, burn_rates=rates))
            elif not burns and open_ is not None and open_.over_ns is None:
                open_.over_ns, open_.sent_ns = now_ns, None
                said.append(Change(rule=rule, severity=severity, state="resolved", at=at))
        self._deliver(now_ns)
        return said

    def _take(self, line: str) -> None:
        if self._count not in line and "drill_ended" not in line:
            return
        try:
            row = msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError):
            return
        if not isinstance(row, dict):
            return
        event = row.get("event")
        if event in _ENDS:
            self.ended = True
        if event != self._count or (self._tool is not None and row.get("tool") != self._tool):
            return
        t = row.get("t")
        at_ns = parse_rfc3339(t) if isinstance(t, str) else None
        bad = _is_bad(row, self._count)
        if at_ns is None or bad is None:
            return
        self.events += 1
        self.bad += bad
        self._tally.add(at_ns / 1e9, int(bad))

    def _deliver(self, now_ns: int) -> None:
        for severity, one in tuple(self._open.items()):
            due = one.sent_ns is None or (one.over_ns is None and now_ns - one.sent_ns >= self._repeat_ns)
            if not due:
                continue
            body = msgspec.json.encode(payload(self._watch, self._labels, severity, one.since_ns, one.over_ns))
            why = self._send(body)
            if why:
                self.failed += 1
                self.last_failure = why
                continue
            self.sent += 1
            one.sent_ns = now_ns
            if one.over_ns is not None:
                del self._open[severity]

    def close(self) -> None:
        """Give the file back."""
        self._tail.close()


def _is_bad(row: Mapping[str, Any], count: Counted) -> bool | None:
    """Whether a line counts as a failure; None: it says nothing of that."""
    match count:
        case "tool_attempted":
            result = row.get("result")
            return None if not isinstance(result, str) else result != "ok"
        case "tool_finished":
            ok = row.get("ok")
            return None if not isinstance(ok, bool) else not ok
        case "user_request":
            status = row.get("status")
            if isinstance(status, bool) or not isinstance(status, int):
                return None
            return not 200 <= status < 500


def follow(detector: Detector, *, at_most_s: float, stop: Callable[[], bool], say: Callable[[Change], None]) -> None:
    """Step until the drill has ended, `stop` says so, or the time is up."""
    until_s = time.monotonic() + at_most_s
    while True:
        began_s = time.monotonic()
        for change in detector.step():
            say(change)
        if detector.ended or stop() or time.monotonic() >= until_s:
            return
        time.sleep(max(0.0, min(EVERY_S - (time.monotonic() - began_s), until_s - time.monotonic())))


def refuse_missing(folder: Path) -> Path:
    """The timeline of a run's folder. Raises Problem."""
    log = folder / "timeline.jsonl"
    if folder.is_dir():
        return log
    raise Problem(
        str(folder), found="no folder", wanted="the folder of a run", remedy="name one, or a timeline: --log FILE"
    )
