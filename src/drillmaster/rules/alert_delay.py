"""The arithmetic of an alert's delay: from a failure to the pager, at best and at worst, before anybody injects anything.

1. A sample is taken every scrape interval: at best at once, at worst one interval later.
2. A condition over a rate crosses when enough has failed; `_alert_expr` says when that can be known. A recording rule in another
   group is evaluated at worst its interval later.
3. The alert's group is evaluated every interval, at best at once; `query_offset` looks that much into the past, always.
4. `for` is held out in whole evaluations: it is rounded up to the interval.
5. Alertmanager takes the first route, depth first, that all matchers of fit; with `continue` also the next. What a route does not
   say it has from the route above, and at last from the defaults. An alert's labels are the rule's, those that were said of the
   series, and the external ones; what an expression asks of its series may not be left behind it, and a template says nothing.
6. A new group waits for `group_wait`, always. A group that is open already, and an empty one is kept for up to 30 s, is sent at its
   next `group_interval` instead: an alert that joins one takes anything up to that. It is said, and is in no sum.
7. What silences, inhibitions, mute times and relabelling do is said where a file says it may happen. It is in no sum.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from drillmaster.rules._alert_expr import crossing, duration_s, matchers_of

__all__ = [
    "At",
    "Estimate",
    "Facts",
    "Inhibit",
    "Matcher",
    "Recording",
    "Route",
    "Rule",
    "Taken",
    "Term",
    "against",
    "duration_s",
    "estimate",
    "routes_of",
]


class At(msgspec.Struct, frozen=True):
    """Seconds, and where they stand: `file:line`, or a program's default."""

    s: float
    place: str


class Matcher(msgspec.Struct, frozen=True, kw_only=True):
    """One condition on a label: =, !=, =~ or !~. A label that is not there is the empty text."""

    label: str
    op: str
    value: str

    def fits(self, labels: Mapping[str, str]) -> bool:
        said = labels.get(self.label, "")
        if self.op in ("=", "!="):
            return (said == self.value) is (self.op == "=")
        try:
            found = re.fullmatch(self.value, said) is not None  # anchored, as Alertmanager has it
        except re.error:
            return False
        return found is (self.op == "=~")


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """One node of Alertmanager's tree, with what it says itself. None: it says nothing of that."""

    place: str
    receiver: str | None = None
    matchers: tuple[Matcher, ...] = ()
    continues: bool = False
    group_wait: At | None = None
    group_interval: At | None = None
    repeat_interval: At | None = None
    group_by: tuple[str, ...] | None = None
    muted_by: tuple[str, ...] = ()
    """Names of mute times; with a `not` in front, of active times."""
    routes: "tuple[Route, ...]" = ()


class Inhibit(msgspec.Struct, frozen=True, kw_only=True):
    """A rule by which other alerts silence some."""

    place: str
    source: tuple[Matcher, ...]
    target: tuple[Matcher, ...]


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """A recording rule."""

    expression: str
    group: str
    interval: At


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """An alerting rule, with its group's interval."""

    name: str
    place: str
    expression: str
    group: str
    interval: At
    held: At
    """`for`."""
    keep_firing: At | None = None
    query_offset: At | None = None
    labels: dict[str, str] = {}


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What the files say."""

    scrapes: dict[str, At]
    """By job."""
    rule: Rule
    recordings: dict[str, Recording] = {}
    route: Route
    inhibits: tuple[Inhibit, ...] = ()
    external_labels: dict[str, str] = {}
    notes: tuple[str, ...] = ()


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """A route that takes the alert, with what it inherits."""

    place: str
    receiver: str
    group_wait: At
    group_interval: At
    repeat_interval: At
    group_by: tuple[str, ...]
    muted_by: tuple[str, ...]


class Term(msgspec.Struct, frozen=True, kw_only=True):
    """One part of the delay."""

    name: str
    best_s: float
    worst_s: float | None
    """None: not known."""
    place: str
    why: str = ""


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """The sum, its parts, and what is in no sum."""

    rule: str
    terms: tuple[Term, ...]
    receiver: str
    also: tuple[str, ...] = ()
    """Receivers of further routes that take it as well."""
    notes: tuple[str, ...] = ()

    @property
    def best_s(self) -> float:
        return sum(term.best_s for term in self.terms)

    @property
    def worst_s(self) -> float | None:
        known = [term.worst_s for term in self.terms if term.worst_s is not None]
        return sum(known) if len(known) == len(self.terms) else None

    @property
    def sum(self) -> str:
        """The parts that count at worst, as one line."""
        said = [term for term in self.terms if term.worst_s != 0]
        return " + ".join(f"{term.name} {_seconds(term.worst_s)}" for term in said) or "nothing"

    @property
    def best_sum(self) -> str:
        said = [term for term in self.terms if term.best_s != 0]
        return " + ".join(f"{term.name} {_seconds(term.best_s)}" for term in said) or "nothing"


def against(found: Estimate, limit_s: float) -> tuple[Literal["impossible", "unsure", "fits"], str]:
    """Hold an estimate against a limit, and say it. What takes just as long does not fit: something is always added."""
    limit = f"{limit_s:g} s"
    if found.best_s >= limit_s:
        if math.isinf(found.best_s):
            why = next(term.why for term in found.terms if math.isinf(term.best_s))
            return "impossible", f"{limit} is impossible: the alert never fires: {why}"
        return "impossible", f"{limit} is impossible: {found.best_sum} = {found.best_s:g} s at best"
    if found.worst_s is None:
        return "unsure", f"{limit} is not certain: {found.sum}"
    if found.worst_s >= limit_s:
        return "unsure", f"{limit} is not certain: {found.sum} = {_seconds(found.worst_s)} s at worst"
    return "fits", f"{limit} is enough: {found.sum} = {_seconds(found.worst_s)} s at worst"


_GROUP_WAIT = At(30, "Alertmanager's default")
_GROUP_INTERVAL = At(300, "Alertmanager's default")
_REPEAT_INTERVAL = At(14_400, "Alertmanager's default")


def estimate(
    facts: Facts,
    *,
    job: str | None = None,
    receiver: str | None = None,
    share: float | None = None,
    labels: Mapping[str, str] | None = None,
) -> Estimate | None:
    """Add up the delay of a rule's alert. None: no route to `receiver` takes it.

    `job` is whose samples the rule reads, `share` of the calls how many fail in the drill, `labels` what the series have
    besides the rule's own labels.
    """
    rule = facts.rule
    templates = [name for name, value in rule.labels.items() if "{{" in value]
    fixed = {name: value for name, value in rule.labels.items() if name not in templates}
    said = {**facts.external_labels, **(labels or {}), **fixed, "alertname": rule.name}
    notes = list(facts.notes)
    taken = list(routes_of(facts.route, said))
    chosen = next((one for one in taken if receiver is None or one.receiver == receiver), None)
    if chosen is None:
        return None
    terms = [_scraped(facts, job or said.get("job") or matchers_of(rule.expression).get("job"))]
    terms += _crossed(facts, share)
    terms += _evaluated(rule)
    terms.append(
        Term(
            name="group_wait",
            best_s=chosen.group_wait.s,
            worst_s=chosen.group_wait.s,
            place=chosen.group_wait.place,
            why=f"of the route to {chosen.receiver} ({chosen.place}), for a new group",
        )
    )
    notes += _notes(facts, chosen, said)
    also = tuple(dict.fromkeys(one.receiver for one in taken if one is not chosen))
    return Estimate(rule=rule.name, terms=tuple(terms), receiver=chosen.receiver, also=also, notes=tuple(notes))


def _scraped(facts: Facts, name: str | None) -> Term:
    scrapes = facts.scrapes
    if name in scrapes:
        found, why = scrapes[name], f"of job {name}"
    elif len(scrapes) == 1:
        only = next(iter(scrapes))
        found, why = scrapes[only], f"of job {only}, the only one"
    else:
        slowest = max(scrapes, key=lambda one: scrapes[one].s)
        found = scrapes[slowest]
        why = f"of job {slowest}, the slowest: say which one the rule reads with --job"
    return Term(name="scrape", best_s=0, worst_s=found.s, place=found.place, why=why)


def _crossed(facts: Facts, share: float | None) -> Iterator[Term]:
    rule = facts.rule
    recorded = {name: one.expression for name, one in facts.recordings.items()}
    found = crossing(rule.expression, recorded, share)
    yield Term(name="crossing", best_s=found.best_s, worst_s=found.worst_s, place=rule.place, why=found.why)
    used = [
        (name, one)
        for name, one in facts.recordings.items()
        if one.group != rule.group and re.search(rf"(?<![\w:]){re.escape(name)}(?![\w:])", rule.expression)
    ]
    if used:
        name, slowest = max(used, key=lambda pair: pair[1].interval.s)
        yield Term(
            name="recording",
            best_s=0,
            worst_s=slowest.interval.s,
            place=slowest.interval.place,
            why=f"{name} is of group {slowest.group}",
        )


def _evaluated(rule: Rule) -> Iterator[Term]:
    every = rule.interval
    yield Term(name="evaluation", best_s=0, worst_s=every.s, place=every.place, why=f"of group {rule.group}")
    if rule.query_offset is not None and rule.query_offset.s:
        late = rule.query_offset
        yield Term(name="query_offset", best_s=late.s, worst_s=late.s, place=late.place)
    if rule.held.s:
        held_s = math.ceil(rule.held.s / every.s) * every.s
        rounded = "" if held_s == rule.held.s else f"{rule.held.s:g} s, in whole evaluations"
        yield Term(name="for", best_s=held_s, worst_s=held_s, place=rule.held.place, why=rounded)


def routes_of(root: Route, labels: Mapping[str, str]) -> Iterator[Taken]:
    """Give the routes that take an alert of these labels, in Alertmanager's order (rule 5)."""
    top = Taken(
        place=root.place,
        receiver=root.receiver or "",
        group_wait=_GROUP_WAIT,
        group_interval=_GROUP_INTERVAL,
        repeat_interval=_REPEAT_INTERVAL,
        group_by=(),
        muted_by=(),
    )
    yield from _walk(root, labels, top)


def _walk(route: Route, labels: Mapping[str, str], above: Taken) -> Iterator[Taken]:
    here = Taken(
        place=route.place,
        receiver=route.receiver or above.receiver,
        group_wait=route.group_wait or above.group_wait,
        group_interval=route.group_interval or above.group_interval,
        repeat_interval=route.repeat_interval or above.repeat_interval,
        group_by=above.group_by if route.group_by is None else route.group_by,
        muted_by=route.muted_by,
    )
    found = False
    for child in route.routes:
        if not all(one.fits(labels) for one in child.matchers):
            continue
        found = True
        yield from _walk(child, labels, here)
        if not child.continues:
            break
    if not found:
        yield here


def _notes(facts: Facts, taken: Taken, labels: Mapping[str, str]) -> Iterator[str]:
    rule = facts.rule
    yield (
        f"where the group is open already, or was within the last 30 s, not group_wait counts but anything up to "
        f"group_interval {_seconds(taken.group_interval.s)} s ({taken.group_interval.place})"
    )
    if taken.muted_by:
        yield f"the route at {taken.place} is mute at times: {', '.join(taken.muted_by)}"
    for one in facts.inhibits:
        if all(matcher.fits(labels) for matcher in one.target):
            source = ", ".join(f'{m.label}{m.op}"{m.value}"' for m in one.source)
            yield f"inhibited while an alert of {source} fires ({one.place})"
    if rule.keep_firing is not None and rule.keep_firing.s:
        yield (
            f"keeps firing {_seconds(rule.keep_firing.s)} s after it was over ({rule.keep_firing.place}): "
            "an injection within that finds it open, and no new alert comes"
        )
    asked = sorted({one.label for one in _all_matchers(facts.route.routes)} - labels.keys())
    if asked:
        yield f"routes ask for labels that are not known ({', '.join(asked)}): taken for absent; say --label NAME=VALUE"


def _all_matchers(routes: Sequence[Route]) -> Iterator[Matcher]:
    for route in routes:
        yield from route.matchers
        yield from _all_matchers(route.routes)


def _seconds(value: float | None) -> str:
    return "unknown" if value is None else "never" if math.isinf(value) else f"{value:g}"
