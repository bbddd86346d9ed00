"""Which alert names an injection, how long it took, and who acknowledged it.

1. Time runs from this injection to the receipt of an alert, both by the run's own clock. What the sender says of its time decides
   one thing alone: whether the alert began before the injection.
2. An alert names the injection when it is of the rule, has the labels and came by the receivers that the row asks for, and
   - carries `drill_run` and `drill_window` of this one; or
   - carries neither of another run or window, and began at or after the injection.
   An alert of another run or window is nobody's here: it is counted and passed over.
3. An alert that was received before the injection, or began before it, is a false positive, however often it is sent again. One
   that began within an earlier injection of the run is that one's echo: no detection either, and no false positive.
4. An alert that says no beginning (a line of a log, a message in a channel) began when it was first received. While the same rule
   is open from before, by whatever receiver, it is that alert sent again.
5. `resolved` ends an alert and detects nothing. What fires under its key afterwards with a later beginning is a new one.
6. An alert below the row's severity does not count, whenever it came; it is said. So is a severity that stands in no order: where
   it came before any alert that counts, there is no delay to judge. Severities are the row's own words first, then those of
   `SEVERITIES`. An alert that is sent again with another severity counts from then.
7. No alert that counts took at least as long as was looked. Whoever began to listen after the injection has measured nothing.
8. Clocks apart by more than is known make a beginning unclear: within that of the injection, an alert without the labels of rule 2
   decides nothing. A sender whose alerts begin after they were received is ahead by that much at least.
9. The acknowledgement is a person's, of an alert that names this injection, by whatever receiver: its key is the alert's, or the
   alert's group, or the SHA-256 of that group (which is what Alertmanager gives a pager as deduplication key). It counts from the
   receipt that counts to when the pager says it was. Where that lies before the receipt, it took at most until we were told.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from drillmaster.clock import parse_rfc3339
from drillmaster.verdict import Absent, AtLeast, AtMost, Cite, Exact, Finding, Measure

__all__ = [
    "RUN_LABEL",
    "SEVERITIES",
    "WINDOW_LABEL",
    "Ack",
    "Alert",
    "Detection",
    "Injection",
    "Looked",
    "Wanted",
    "match",
    "read_event",
    "severity_rank",
]

RUN_LABEL = "drill_run"
WINDOW_LABEL = "drill_window"

SEVERITIES: dict[str, int] = {
    "critical": 2,
    "error": 3,
    "warning": 4,
    "info": 5,
}
"""Words and where they stand among sev0 to sev5, 0 being the worst.

The four and their order are PagerDuty's (Events API v2, `payload.severity`: critical, error, warning, info); rules of Prometheus
use three of them. A critical alert is taken for a sev2, the least that a pager rings for, and nothing below it reaches that. A team
whose words mean something else says so in its row.
"""

_NUMBERED = re.compile(r"(?:sev(?:erity)?|p(?:rio(?:rity)?)?)[ _-]?([0-5])", re.ASCII)


_SEV = re.compile(r"sev(?:erity)?[ _-]?[0-5]", re.ASCII)


def severity_rank(word: str, own: Mapping[str, str] | None = None) -> int | None:
    """Give where a severity stands, 0 the worst; None: nowhere. `own` maps a team's words to sev0 to sev5."""
    low = word.strip().casefold()
    if own:
        said = {name.strip().casefold(): to for name, to in own.items()}.get(low)
        if said is not None:
            low = said.strip().casefold()
    numbered = _NUMBERED.fullmatch(low)
    return int(numbered[1]) if numbered else SEVERITIES.get(low)


class Injection(msgspec.Struct, frozen=True, kw_only=True):
    """One injection. Nanoseconds count from the run's start."""

    run: str
    window: str
    injected_ns: int
    lifted_ns: int | None = None


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What a row asks of an alert. Raises ValueError for a least severity that stands nowhere."""

    rule: str
    least: str
    """The least severity that counts, as sev2 or a word."""
    labels: dict[str, str] = {}
    receivers: tuple[str, ...] = ()
    """Which receivers' word counts; none named: everybody's."""
    severities: dict[str, str] = {}
    """The team's own words, each with its sev0 to sev5."""
    clocks_s: float = 0.0
    """How far the senders' clocks may be from ours, either way."""

    def __post_init__(self) -> None:
        if not self.rule.strip() or not self.rule.isprintable() or len(self.rule) > 200:
            raise ValueError(f"rule: the name that the alert carries, at most 200 characters; found {self.rule[:70]!r}")
        for word, to in self.severities.items():
            if _NUMBERED.fullmatch(to.strip().casefold()) is None:
                raise ValueError(f"severities: {word!r} is {to!r}; wanted sev0 to sev5")
            if _SEV.fullmatch(word.strip().casefold()) is not None:
                raise ValueError(
                    f"severities: {word!r} is {to!r}; wanted words of your own, sev0 to sev5 say themselves"
                )
        if severity_rank(self.least, self.severities) is None:
            raise ValueError(f"a severity of sev0 to sev5, or one of {', '.join(SEVERITIES)}; found {self.least!r}")
        if not 0 <= self.clocks_s <= 3_600:
            raise ValueError("clocks_s: 0 to 3,600 seconds")


class Looked(msgspec.Struct, frozen=True, kw_only=True):
    """When somebody listened. Nanoseconds count from the run's start."""

    from_ns: int
    until_ns: int


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """One receipt of an alert: a line `alert_received`."""

    at_ns: int
    receiver: str
    rule: str
    severity: str
    state: Literal["firing", "resolved"] = "firing"
    key: str = ""
    """What the sender tells one alert from another by: a fingerprint, an incident's key."""
    group: str = ""
    starts_ns: int | None = None
    """When it began, by the sender's clock, as nanoseconds of the run; None: not said."""
    starts_wall_ns: int | None = None
    """The same in nanoseconds since 1970, to the letter: two receipts of one alert say one beginning, however our clocks went."""
    labels: dict[str, str] = {}
    form: str = ""
    cite: Cite | None = None


class Ack(msgspec.Struct, frozen=True, kw_only=True):
    """One acknowledgement: a line `alert_acknowledged`."""

    at_ns: int
    receiver: str
    key: str
    occurred_ns: int | None = None
    """When it was, by the pager's clock; None: not said."""
    who_kind: str = ""
    """`user` for a person; a service, an integration or nobody otherwise."""
    cite: Cite | None = None


class Detection(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one injection for one row. Seconds."""

    delay: Measure
    ack: Measure
    alert: Alert | None = None
    """The receipt that counts."""
    acked: Ack | None = None
    lower: tuple[Alert, ...] = ()
    """Named it and were below the row's severity; one an alert, the first receipt."""
    unknown: tuple[Alert, ...] = ()
    """Named it with a severity that stands in no order."""
    unclear: tuple[Alert, ...] = ()
    """May have begun before or after: the clocks do not say."""
    false_positives: tuple[Alert, ...] = ()
    """Of before this injection; one an alert, the first receipt."""
    echoes: tuple[Alert, ...] = ()
    """Of an earlier injection of the run."""
    repeats: int = 0
    """Further receipts of alerts that are counted above."""
    foreign: int = 0
    """Receipts that name another run or window."""
    other: int = 0
    """Receipts of another rule, receiver or labels."""
    ahead_s: float = 0.0
    """How far ahead of ours a sender's clock is at least."""
    findings: tuple[Finding, ...] = ()


_Kind = Literal["named", "before", "echo", "unclear", "foreign", "other", "resolved", "again"]


def match(
    alerts: Iterable[Alert],
    acks: Iterable[Ack],
    injection: Injection,
    wanted: Wanted,
    looked: Looked,
    *,
    earlier: Sequence[Injection] = (),
) -> Detection:
    """Hold all alerts of a run against one injection and one row. `earlier`: the run's injections before this one."""
    told = sorted((one for one in alerts if one.at_ns <= looked.until_ns), key=lambda one: one.at_ns)
    ours = [one for one in told if _asked_for(one, wanted)]
    ahead_ns = max((one.starts_ns - one.at_ns for one in ours if one.starts_ns is not None), default=0)
    sorter = _Sorter(injection, earlier, max(round(wanted.clocks_s * 1e9), ahead_ns, 0))
    sorted_: dict[_Kind, list[Alert]] = {}
    for one in ours:
        sorted_.setdefault(sorter.kind(one), []).append(one)
    named, unclear = sorted_.get("named", []), sorted_.get("unclear", [])
    least = severity_rank(wanted.least, wanted.severities)
    assert least is not None
    ranked = [(one, severity_rank(one.severity, wanted.severities)) for one in named]
    counts = next((one for one, rank in ranked if rank is not None and rank <= least), None)
    lower = tuple(one for one, rank in ranked if rank is not None and rank > least)
    unknown = tuple(one for one, rank in ranked if rank is None)
    delay = _delay(counts, unknown, unclear, injection, wanted, looked)
    ack, acked = _acknowledged(counts, delay, acks, frozenset().union(*map(_keys, named)), looked)
    found = Detection(
        delay=delay,
        ack=ack,
        alert=counts,
        acked=acked,
        lower=lower,
        unknown=unknown,
        unclear=tuple(unclear),
        false_positives=tuple(sorted_.get("before", [])),
        echoes=tuple(sorted_.get("echo", [])),
        repeats=len(sorted_.get("again", [])),
        foreign=len(sorted_.get("foreign", [])),
        other=len(told) - len(ours),
        ahead_s=max(ahead_ns, 0) / 1e9,
    )
    return msgspec.structs.replace(found, findings=tuple(_findings(found, injection, wanted)))


def _asked_for(alert: Alert, wanted: Wanted) -> bool:
    return (
        alert.rule == wanted.rule
        and (not wanted.receivers or alert.receiver in wanted.receivers)
        and all(alert.labels.get(name) == value for name, value in wanted.labels.items())
    )


class _Sorter:
    """Says of each receipt, in their order, what it is to the injection (rules 2 to 5 and 8)."""

    def __init__(self, injection: Injection, earlier: Sequence[Injection], apart_ns: int) -> None:
        self._injection = injection
        self._first_ns = min((one.injected_ns for one in earlier), default=None)
        self._apart_ns = apart_ns
        self._open: dict[tuple[str, str], tuple[Alert, _Kind]] = {}
        """Alerts that were said to fire and not yet to be over, by receiver and key: their first receipt, and what it was."""

    def kind(self, alert: Alert) -> _Kind:
        injection = self._injection
        run, window = alert.labels.get(RUN_LABEL), alert.labels.get(WINDOW_LABEL)
        if run not in (None, injection.run) or (window not in (None, injection.window)):
            return "foreign"
        key = (alert.receiver, alert.key)
        if alert.state == "resolved":
            self._open.pop(key, None)
            return "resolved"
        known, was = self._open.get(key, (None, None))
        if known is not None and not _began_anew(known, alert):
            if was != "named" or known.severity == alert.severity:
                return "again"
        elif alert.at_ns >= injection.injected_ns and alert.starts_ns is None and self._open_before(alert.rule):
            return "again"
        kind = self._first(alert, labelled=run is not None and window is not None)
        self._open[key] = (alert, kind)
        return kind

    def _first(self, alert: Alert, *, labelled: bool) -> _Kind:
        injection = self._injection
        begun_ns = alert.at_ns if alert.starts_ns is None else alert.starts_ns
        if alert.at_ns < injection.injected_ns:
            return self._before(begun_ns)
        if labelled:
            return "named"
        if alert.starts_ns is not None:
            if abs(begun_ns - injection.injected_ns) < self._apart_ns:
                return "unclear"
            if begun_ns < injection.injected_ns:
                return self._before(begun_ns)
        return "named"

    def _open_before(self, rule: str) -> bool:
        since = self._injection.injected_ns
        return any(one.at_ns < since and one.rule == rule for one, _ in self._open.values())

    def _before(self, begun_ns: int) -> _Kind:
        return "echo" if self._first_ns is not None and begun_ns >= self._first_ns else "before"


def _began_anew(known: Alert, alert: Alert) -> bool:
    if known.starts_wall_ns is not None and alert.starts_wall_ns is not None:
        return alert.starts_wall_ns > known.starts_wall_ns
    return known.starts_ns is not None and alert.starts_ns is not None and alert.starts_ns > known.starts_ns


def _delay(
    counts: Alert | None,
    unknown: Sequence[Alert],
    unclear: Sequence[Alert],
    injection: Injection,
    wanted: Wanted,
    looked: Looked,
) -> Measure:
    if looked.from_ns > injection.injected_ns:
        return Absent("whoever listened began after the injection: an alert of before it would not have been seen")
    if looked.until_ns <= injection.injected_ns:
        return Absent("nobody listened after the injection")
    until_ns = looked.until_ns if counts is None else counts.at_ns
    for one in unknown:
        if one.at_ns < until_ns:
            return Absent(
                f"{one.rule} came with severity {one.severity!r}, which stands in no order: map it in the row's severities"
            )
    for one in unclear:
        if one.at_ns < until_ns:
            return Absent(
                f"{one.rule} began within the clocks' difference of the injection: label alerts with {RUN_LABEL} and "
                f"{WINDOW_LABEL}, or bring the clocks together"
            )
    if counts is None:
        return AtLeast((looked.until_ns - injection.injected_ns) / 1e9)
    return Exact((counts.at_ns - injection.injected_ns) / 1e9, n=1)


def _acknowledged(
    alert: Alert | None, delay: Measure, acks: Iterable[Ack], keys: frozenset[str], looked: Looked
) -> tuple[Measure, Ack | None]:
    if alert is None or not isinstance(delay, Exact):
        return Absent("no alert that counts, so there was nothing to acknowledge"), None
    fitting = [
        one
        for one in acks
        if one.who_kind == "user" and one.key in keys and alert.at_ns <= one.at_ns <= looked.until_ns
    ]
    if not fitting:
        return AtLeast((looked.until_ns - alert.at_ns) / 1e9), None
    first = min(fitting, key=lambda one: one.at_ns)
    if first.occurred_ns is None or not alert.at_ns <= first.occurred_ns <= first.at_ns:
        return AtMost((first.at_ns - alert.at_ns) / 1e9, n=1), first
    return Exact((first.occurred_ns - alert.at_ns) / 1e9, n=1), first


def _keys(alert: Alert) -> frozenset[str]:
    import hashlib  # only where an alert was found

    keys = {alert.key, alert.group} - {""}
    if alert.group:
        keys.add(hashlib.sha256(alert.group.encode()).hexdigest())
    return frozenset(keys)


def _findings(found: Detection, injection: Injection, wanted: Wanted) -> Iterable[Finding]:
    def cites(alerts: Sequence[Alert]) -> tuple[Cite, ...]:
        return tuple(one.cite for one in alerts[:5] if one.cite is not None)

    if found.false_positives:
        first, times = found.false_positives[0], len(found.false_positives)
        begun_ns = first.at_ns if first.starts_ns is None else min(first.at_ns, first.starts_ns)
        yield Finding(
            id="alert-before-injection",
            cause=f"{wanted.rule} fired {'once' if times == 1 else f'{times} times'} without this injection, "
            f"first {(injection.injected_ns - begun_ns) / 1e9:.1f} s before it",
            next="find what it fired for; an alert that is always on says nothing when it matters",
            cites=cites(found.false_positives),
        )
    if found.lower:
        yield Finding(
            id="alert-below-severity",
            cause=f"{wanted.rule} came as {found.lower[0].severity}, below {wanted.least}",
            next="raise the rule's severity label, or agree on another least severity with the row's owner",
            cites=cites(found.lower),
        )
    if found.unknown:
        yield Finding(
            id="alert-severity-unknown",
            cause=f"{wanted.rule} came with severity {found.unknown[0].severity!r}, which stands in no order",
            next="map the word in the row's severities",
            cites=cites(found.unknown),
        )
    if found.ahead_s > 1:
        yield Finding(
            id="alert-clocks-apart",
            cause=f"a sender's clock is {found.ahead_s:.1f} s ahead of the drill's at least",
            next="have both keep time by NTP",
        )


def read_event(
    event: str, at_ns: int, fields: Mapping[str, Any], *, wall_ns: int, cite: Cite | None = None
) -> Alert | Ack | None:
    """Read a line of `events/detectors.jsonl`; None: another event. Raises ValueError for one that is not as written.

    `wall_ns` is the line's `t`: what the sender says of its time is set beside it.
    """
    match event:
        case "alert_received":
            state = _text(fields, "state")
            if state not in ("firing", "resolved"):
                raise ValueError(f"state {state!r}; wanted firing or resolved")
            labels = fields.get("labels")
            if not isinstance(labels, dict) or not all(isinstance(value, str) for value in labels.values()):
                raise ValueError("labels: wanted an object of texts")
            return Alert(
                at_ns=at_ns,
                receiver=_text(fields, "receiver"),
                form=_text(fields, "form"),
                rule=_text(fields, "rule"),
                severity=_text(fields, "severity"),
                state="firing" if state == "firing" else "resolved",
                key=_text(fields, "key"),
                group=_text(fields, "group"),
                starts_ns=_run_ns(fields, "starts_at", at_ns, wall_ns),
                starts_wall_ns=_wall_ns(fields, "starts_at"),
                labels=labels,
                cite=cite,
            )
        case "alert_acknowledged":
            return Ack(
                at_ns=at_ns,
                receiver=_text(fields, "receiver"),
                key=_text(fields, "key"),
                occurred_ns=_run_ns(fields, "at", at_ns, wall_ns),
                who_kind=_text(fields, "who_kind"),
                cite=cite,
            )
    return None


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name, "")
    if not isinstance(value, str):
        raise ValueError(f"{name}: wanted a text")
    return value


def _run_ns(fields: Mapping[str, Any], name: str, at_ns: int, wall_ns: int) -> int | None:
    said_ns = _wall_ns(fields, name)
    return None if said_ns is None else at_ns - (wall_ns - said_ns)


def _wall_ns(fields: Mapping[str, Any], name: str) -> int | None:
    value = fields.get(name)
    if value is None:
        return None
    said_ns = parse_rfc3339(value) if isinstance(value, str) else None
    if said_ns is None:
        raise ValueError(f"{name}: wanted a time with its zone, or null")
    return said_ns
