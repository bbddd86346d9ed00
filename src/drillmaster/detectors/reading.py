"""What senders say, form by form: a document into alerts and acknowledgements. Pure; ValueError for what is not of the form.

1. Every text is screened and cut before anybody keeps it: labels, keys and groups are other people's.
2. A document is taken whole or not at all. One alert in it that is none refuses it: who signs for half of it would hide the rest.
3. Nothing is guessed. A severity that is not said is the empty word, and stands in no order.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from drillmaster.clock import parse_rfc3339
from drillmaster.friday.detectors import Alertmanager, Grafana, PagerDuty, Pinned, Slack, Standard, Web
from drillmaster.rules.alerts import RUN_LABEL, WINDOW_LABEL
from drillmaster.screen import screen_value

__all__ = ["MOST_ALERTS", "Acknowledged", "Received", "Told", "found_in", "read"]

MOST_ALERTS = 500
MOST_CHARS = 65_536
_MOST_DEPTH = 12
_MOST_TEXTS = 400
_LABEL_CHARS = 200
_LABELS_CHARS = 1_600
_OVER = frozenset({"resolved", "ok", "closed", "normal", "recovered"})
_FIRST_LABELS = (RUN_LABEL, WINDOW_LABEL, "alertname", "severity", "service", "job", "instance")


class Received(msgspec.Struct, frozen=True, kw_only=True):
    """One alert of a delivery."""

    rule: str
    severity: str
    state: str
    key: str
    starts_at: str | None = None
    ends_at: str | None = None
    labels: dict[str, str] = {}
    group: str = ""


class Acknowledged(msgspec.Struct, frozen=True, kw_only=True):
    """One acknowledgement."""

    key: str
    at: str | None
    who_kind: str


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What a delivery said."""

    alerts: tuple[Received, ...] = ()
    acks: tuple[Acknowledged, ...] = ()
    truncated: int = 0
    """How many alerts the sender says that it left out."""


def read(receiver: Web, document: object) -> Told:
    """Read one delivery of a receiver's form. Raises ValueError, whose text quotes nothing of it."""
    if not isinstance(document, dict):
        raise ValueError("no object")
    match receiver:
        case Alertmanager():
            if document.get("version") != "4":
                raise ValueError("version: wanted 4, as Alertmanager's webhooks have had since 0.5")
            return _grouped(document, receiver.severity_label)
        case Grafana():
            return _grouped(document, receiver.severity_label)
        case PagerDuty():
            return _event(document, receiver.find)
        case Slack():
            return Told(alerts=tuple(found_in(receiver.find, "\n".join(_texts(document)))))
        case Standard():
            return _own(document)


def _grouped(document: dict[str, Any], severity_label: str) -> Told:
    alerts = document.get("alerts")
    if not isinstance(alerts, list) or not alerts:
        raise ValueError("alerts: wanted a list of one at least")
    if len(alerts) > MOST_ALERTS:
        raise ValueError(f"alerts: more than {MOST_ALERTS}")
    truncated = document.get("truncatedAlerts", 0)
    if not isinstance(truncated, int) or isinstance(truncated, bool) or truncated < 0:
        raise ValueError("truncatedAlerts: wanted a count")
    group = _word(document, "groupKey", 1_000)
    return Told(alerts=tuple(_alert(one, group, severity_label) for one in alerts), truncated=truncated)


def _alert(found: object, group: str, severity_label: str) -> Received:
    if not isinstance(found, dict):
        raise ValueError("alerts: one that is no object")
    labels = found.get("labels")
    if not isinstance(labels, dict) or not all(isinstance(value, str) for value in labels.values()):
        raise ValueError("labels: wanted an object of texts")
    state = found.get("status")
    if state not in ("firing", "resolved"):
        raise ValueError("status: wanted firing or resolved")
    starts_at = _time(found, "startsAt")
    if starts_at is None:
        raise ValueError("startsAt: wanted a time")
    return Received(
        rule=screen_value(labels.get("alertname", ""), _LABEL_CHARS),
        severity=screen_value(labels.get(severity_label, ""), _LABEL_CHARS),
        state=state,
        key=_word(found, "fingerprint", _LABEL_CHARS) or _label_key(labels),
        starts_at=starts_at,
        ends_at=_time(found, "endsAt"),
        labels=_kept(labels),
        group=group,
    )


def _label_key(labels: Mapping[str, str]) -> str:
    import hashlib  # only for a sender without fingerprints

    return hashlib.sha256(msgspec.json.encode(sorted(labels.items()))).hexdigest()[:16]


def _kept(labels: Mapping[str, str]) -> dict[str, str]:
    """Keep as many labels as fit a line, those first that say whose alert it is."""
    kept: dict[str, str] = {}
    room = _LABELS_CHARS
    names = [name for name in _FIRST_LABELS if name in labels]
    names += sorted(name for name in labels if name not in _FIRST_LABELS)
    for name in names:
        value = screen_value(labels[name], _LABEL_CHARS)
        said = screen_value(name, _LABEL_CHARS)
        room -= len(said) + len(value) + 6
        if room < 0:
            break
        kept[said] = value
    return kept


def _event(document: dict[str, Any], find: Pinned | None) -> Told:
    """PagerDuty, webhooks v3: one event a delivery."""
    event = document.get("event")
    if not isinstance(event, dict):
        raise ValueError("event: wanted an object")
    kind, data = event.get("event_type"), event.get("data")
    if not isinstance(kind, str) or not isinstance(data, dict):
        raise ValueError("event_type and data: wanted a word and an object")
    if not kind.startswith("incident."):
        return Told()
    key = _word(data, "incident_key", _LABEL_CHARS) or _word(data, "id", _LABEL_CHARS)
    if not key:
        raise ValueError("incident_key and id: neither is there")
    at = _time(event, "occurred_at")
    if at is None:
        raise ValueError("occurred_at: wanted a time")
    if kind == "incident.acknowledged":
        agent = event.get("agent")
        who = agent.get("type") if isinstance(agent, dict) else None
        who = who.removesuffix("_reference") if isinstance(who, str) else "nobody"
        return Told(acks=(Acknowledged(key=key, at=at, who_kind=screen_value(who, 40)),))
    if find is None or kind not in ("incident.triggered", "incident.resolved", "incident.reopened"):
        return Told()
    priority = data.get("priority")
    level = _word(priority, "summary", 40) if isinstance(priority, dict) else ""
    over = kind == "incident.resolved"
    begun = None if kind == "incident.resolved" else at
    return Told(
        alerts=tuple(
            msgspec.structs.replace(
                one,
                key=key,
                state="resolved" if over else "firing",
                starts_at=begun,
                ends_at=at if over else None,
                severity=level if find.severity == "priority" else one.severity,
            )
            for one in found_in(find, _word(data, "title", MOST_CHARS))
        )
    )


def _own(document: dict[str, Any]) -> Told:
    """A webhook of the team's own: `type` is alert.firing, alert.resolved or alert.acknowledged, `data` says the rest."""
    kind, data = document.get("type"), document.get("data")
    if not isinstance(data, dict):
        raise ValueError("data: wanted an object")
    at = _time(document, "timestamp")
    key = _word(data, "key", _LABEL_CHARS)
    if kind == "alert.acknowledged":
        if not key:
            raise ValueError("key: wanted a text")
        return Told(acks=(Acknowledged(key=key, at=at, who_kind=_word(data, "who_kind", 40)),))
    if kind not in ("alert.firing", "alert.resolved"):
        raise ValueError("type: wanted alert.firing, alert.resolved or alert.acknowledged")
    labels = data.get("labels", {})
    if not isinstance(labels, dict) or not all(isinstance(value, str) for value in labels.values()):
        raise ValueError("labels: wanted an object of texts")
    rule = _word(data, "rule", _LABEL_CHARS)
    if not rule:
        raise ValueError("rule: wanted a text")
    return Told(
        alerts=(
            Received(
                rule=rule,
                severity=_word(data, "severity", _LABEL_CHARS),
                state=kind.removeprefix("alert."),
                key=key or rule,
                starts_at=_time(data, "starts_at"),
                ends_at=_time(data, "ends_at"),
                labels=_kept(labels),
            ),
        )
    )


def found_in(find: Pinned, text: str) -> Iterator[Received]:
    """Find what a pattern finds in a text, each alert once."""
    text = text[:MOST_CHARS]
    over = find.resolved is not None and re.search(find.resolved, text) is not None
    seen: set[tuple[str, str]] = set()
    for found in re.finditer(find.pattern, text):
        said = {name: value for name, value in found.groupdict().items() if value}
        rule = screen_value(find.rule or said.get("rule", ""), _LABEL_CHARS)
        if not rule:
            continue
        key = screen_value(said.get("key", rule), _LABEL_CHARS)
        if (rule, key) in seen:
            continue
        seen.add((rule, key))
        labels = {RUN_LABEL: said.get("run", ""), WINDOW_LABEL: said.get("window", "")}
        yield Received(
            rule=rule,
            severity=screen_value(find.severity or said.get("severity", ""), _LABEL_CHARS),
            state="resolved" if over or said.get("state", "").strip().casefold() in _OVER else "firing",
            key=key,
            labels=_kept({name: value for name, value in labels.items() if value}),
        )
        if len(seen) >= MOST_ALERTS:
            return


def _texts(document: object, depth: int = 0) -> list[str]:
    """All text that a message of Slack shows: text, blocks with their fields and elements, attachments."""
    if depth > _MOST_DEPTH:
        raise ValueError("deeper than a message is")
    found: list[str] = []
    if isinstance(document, dict):
        for name in ("pretext", "title", "text", "fallback", "value"):
            value = document.get(name)
            if isinstance(value, str):
                found.append(value)
            elif isinstance(value, dict):
                found += _texts(value, depth + 1)
        for name in ("fields", "elements", "blocks", "attachments", "accessory"):
            if name in document:
                found += _texts(document[name], depth + 1)
        if depth == 0 and not found:
            raise ValueError("no text, blocks or attachments")
    elif isinstance(document, list):
        for one in document[:_MOST_TEXTS]:
            found += _texts(one, depth + 1)
    return found[:_MOST_TEXTS]


def _word(found: Mapping[str, Any], name: str, most: int) -> str:
    value = found.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"{name}: wanted a text")
    return screen_value(value, most)


def _time(found: Mapping[str, Any], name: str) -> str | None:
    """A time as it was sent; None where there is none, or Go's zero, year 1."""
    value = found.get(name)
    if value is None or value == "" or (isinstance(value, str) and value.startswith("0001-01-01T")):
        return None
    if not isinstance(value, str) or len(value) > 64 or parse_rfc3339(value) is None:
        raise ValueError(f"{name}: wanted a time with its zone")
    return value
