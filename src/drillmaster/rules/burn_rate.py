"""Multi-window, multi-burn-rate: whether failures eat an error budget fast enough to call somebody, and go on doing it.

The method and the pairs of `WORKBOOK` are those of "Alerting on SLOs" (Google, The Site Reliability Workbook, chapter 5, its sixth
approach, https://sre.google/workbook/alerting-on-slos/), for a budget of 30 days.

1. The budget is what a target leaves: 1 - target. The burn rate over a window is its share of bad events, divided by the budget.
2. A pair burns when the rate is above its factor over both of its windows. The long one says that it matters, the short one that it
   has not ended: it is what makes the alert stop.
3. An alert of a severity fires while one of its pairs burns.
4. A window reaches from now back, its far edge not included: (now - W, now]. One that is older than all events counts what there
   is. No event in a window is no burn, and neither are fewer than `least` in the short one: of one call, one that fails is all.
5. Events are counted by the second: one at 12.3 s is of second 13, as it is in a counter that is read then.
"""

import math
from bisect import bisect_right
from collections.abc import Sequence

import msgspec

__all__ = ["WORKBOOK", "Burn", "Pair", "Tally", "Watch", "burning", "rules_file", "rules_test", "span"]


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """Two windows and the factor that both are held against. Raises ValueError for what is no pair."""

    long_s: int
    short_s: int
    factor: float
    severity: str

    def __post_init__(self) -> None:
        if not 0 < self.short_s < self.long_s <= 90 * 86_400:
            raise ValueError("a short window below a long one of at most 90 days")
        if not 0 < self.factor < math.inf:
            raise ValueError("a factor above 0")


WORKBOOK: tuple[tuple[int, int, float], ...] = ((3_600, 300, 14.4), (21_600, 1_800, 6.0), (259_200, 21_600, 1.0))
"""Long window, short window, factor: two to page for, one for a ticket."""


class Watch(msgspec.Struct, frozen=True, kw_only=True):
    """What is watched: an alert's name, a target, and pairs. Raises ValueError for what cannot be."""

    rule: str
    target: float
    pairs: tuple[Pair, ...]
    least: int = 0
    """Events in the short window below which nothing burns."""

    def __post_init__(self) -> None:
        if not 0 < self.target < 1:
            raise ValueError("a target between 0 and 1, both not included: 1 leaves no budget")
        if self.least < 0:
            raise ValueError("least: 0 or more events")
        if not self.pairs:
            raise ValueError("one pair of windows at least")
        for pair in self.pairs:
            if pair.factor * (1 - self.target) >= 1:
                raise ValueError(
                    f"a factor of {pair.factor:g} asks for more failures than there are calls: at a target of "
                    f"{self.target:g} it is below {1 / (1 - self.target):g}"
                )

    @property
    def severities(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(pair.severity for pair in self.pairs))


class Burn(msgspec.Struct, frozen=True, kw_only=True):
    """One pair at one moment."""

    pair: Pair
    long: float
    short: float
    """Burn rates over both windows."""
    burns: bool


class Tally:
    """Good and bad events by the second (rule 5), in any order. Keeps `longest_s` of them."""

    def __init__(self, longest_s: int) -> None:
        self._longest_s = longest_s
        self._seconds: list[int] = []
        self._sums: list[tuple[int, int]] = [(0, 0)]
        """Bad ones and all, of the seconds before each place."""

    def add(self, at_s: float, bad: int, events: int = 1) -> None:
        """Count events at a time, `bad` of them bad."""
        second = math.ceil(at_s)
        seconds, sums = self._seconds, self._sums
        place = bisect_right(seconds, second)
        if not place or seconds[place - 1] != second:
            seconds.insert(place, second)
            sums.insert(place + 1, sums[place])
            place += 1
        for at in range(place, len(sums)):  # mostly the last one alone
            known = sums[at]
            sums[at] = (known[0] + bad, known[1] + events)
        if len(seconds) > 2 * self._longest_s + 60:
            old = bisect_right(seconds, seconds[-1] - self._longest_s - 30)
            self._seconds, self._sums = seconds[old:], sums[old:]

    def counts(self, now_s: float, window_s: int) -> tuple[int, int]:
        """Bad ones and all in (now - window, now]."""
        low = self._sums[bisect_right(self._seconds, now_s - window_s)]
        high = self._sums[bisect_right(self._seconds, now_s)]
        return high[0] - low[0], high[1] - low[1]


def burning(watch: Watch, tally: Tally, now_s: float) -> tuple[Burn, ...]:
    """Say of each pair how fast the budget burns now."""

    def rate(window_s: int) -> tuple[float, int]:
        bad, events = tally.counts(now_s, window_s)
        return (bad / events / (1 - watch.target) if events else 0.0), events

    found = []
    for pair in watch.pairs:
        (long, _), (short, events) = rate(pair.long_s), rate(pair.short_s)
        burns = long > pair.factor and short > pair.factor and events >= watch.least
        found.append(Burn(pair=pair, long=long, short=short, burns=burns))
    return tuple(found)


def span(seconds: int) -> str:
    """Write a window as Prometheus does: 90 is 90s, 300 is 5m."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def rules_file(watch: Watch, *, bad: str, total: str, every_s: int) -> str:
    """Write the same as rules of Prometheus. `bad` and `total` select counters of failed calls and of all."""
    windows = sorted({window for pair in watch.pairs for window in (pair.long_s, pair.short_s)})
    lines = [
        "# Multi-window, multi-burn-rate (The Site Reliability Workbook, chapter 5). Made by: drillmaster detector rules",
        "groups:",
        f"  - name: {watch.rule}-burn-rate",
        f"    interval: {span(every_s)}",
        "    rules:",
    ]
    for window in windows:
        lines += [
            f"      - record: {_recorded(watch, window)}",
            f"        expr: sum(rate({bad}[{span(window)}])) / sum(rate({total}[{span(window)}]))",
        ]
    for severity in watch.severities:
        pairs = [pair for pair in watch.pairs if pair.severity == severity]
        lines += [f"      - alert: {watch.rule}", "        expr: |"]
        for nth, pair in enumerate(pairs):
            limit = f"({pair.factor:g} * {_budget(watch)})"
            long, short = _recorded(watch, pair.long_s), _recorded(watch, pair.short_s)
            front = "          " if nth == 0 else "          or "
            enough = f" and sum(increase({total}[{span(pair.short_s)}])) >= {watch.least}" if watch.least else ""
            lines.append(f"{front}({long} > {limit} and {short} > {limit}{enough})")
        lines += ["        labels:", f"          severity: {severity}"]
    return "\n".join(lines) + "\n"


def _recorded(watch: Watch, window_s: int) -> str:
    return f"{watch.rule}:failed_share:rate{span(window_s)}"


def _budget(watch: Watch) -> str:
    return f"{1 - watch.target:.12g}"


def rules_test(
    watch: Watch, *, rules: str, bad: str, total: str, every_s: int, share: float, per_step: int = 100
) -> str:
    """Write a test of those rules for `promtool test rules`: health, failures, health again; what fires is what `burning` says.

    `rules` is the rules file's name; `share` of the calls fails in the second third. `every_s` is the scrape interval and the
    rules' own.
    """
    third = max(20, 2 * max(pair.short_s for pair in watch.pairs) // every_s)
    third = min(third, 400)
    failed = round(per_step * share)
    tally = Tally(max(pair.long_s for pair in watch.pairs))
    shown: list[str] = []
    for step in range(1, 3 * third + 1):
        now_s = step * every_s
        tally.add(now_s, failed if third < step <= 2 * third else 0, per_step)
        if step % max(1, third // 20) == 0:
            shown += _expected(watch, tally, now_s)
    steady = f"{third - 1}"
    lines = [
        "# What fires when, as drillmaster's own detector says it. Made by: drillmaster detector rules --test",
        f"rule_files: [{rules}]",
        f"evaluation_interval: {span(every_s)}",
        "tests:",
        f"  - interval: {span(every_s)}",
        "    input_series:",
        f"      - series: {_quoted(total)}",
        f'        values: "0+{per_step}x{3 * third}"',
        f"      - series: {_quoted(bad)}",
        f'        values: "0+0x{third} {failed}+{failed}x{steady} {failed * third}+0x{steady}"',
        "    alert_rule_test:",
        *shown,
    ]
    return "\n".join(lines) + "\n"


def _expected(watch: Watch, tally: Tally, now_s: int) -> Sequence[str]:
    firing = [burn.pair.severity for burn in burning(watch, tally, now_s) if burn.burns]
    said = [severity for severity in watch.severities if severity in firing]
    lines = [f"      - eval_time: {now_s}s", f"        alertname: {watch.rule}"]
    if not said:
        return [*lines, "        exp_alerts: []"]
    return [*lines, "        exp_alerts:", *(f"          - exp_labels: {{severity: {severity}}}" for severity in said)]


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
