"""From a run to its accounting of retries: each request's attempts in order, each stretch of time by bisection."""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import islice

from drillmaster.outcomes import Attempt, Request, Run, Window
from drillmaster.retries.models import Models
from drillmaster.retries.shapes import (
    AT_ONCE_S,
    DATE_GRAIN_S,
    GRAIN_S,
    MOST_BINS,
    RETURN_PERIODS,
    RETURN_S,
    Accounting,
    Layers,
    Load,
    Nested,
    Pauses,
    Phase,
    PhaseName,
    Rates,
    Storm,
    Tokens,
    Waits,
)
from drillmaster.stats import median, quantile
from drillmaster.verdict import Absent, AtLeast, Cite, Exact, Measure

__all__ = ["account"]

_GRAIN_NS = round(GRAIN_S * 1e9)
_CITES = 3
_UNREAD = 2
"""From so many of one call on, what follows a failure unread counts among the retries' pauses."""
_BINS_S = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600)
_TOOLS = frozenset({"mcp"})
"""Dialects of no model: what they cost is no tokens, and no model's call stands in for theirs."""
_RETRIES = frozenset({"sdk", "above", "untold"})
_LEFT = frozenset({"client_gone", "held", "stall"})
"""Ends of attempts that their client went away from."""
_DROP_NS = round(AT_ONCE_S * 1e9)
"""How long behind a good answer the ones beside it are dropped, at most: a time limit that ends then is rare."""


def account(run: Run) -> Accounting | None:
    """Account for the retries of a run; None for a bare file, behind which there is no wire."""
    if run.bare:
        return None
    books, spans = _phases(run)
    owners: dict[str, int] = {}
    own: defaultdict[str, list[Attempt]] = defaultdict(list)
    models = Models(run)
    for place, (_, _, requests) in enumerate(books):
        for request in requests:
            owners[request.id] = place
    nobodys: list[Attempt] = []
    for attempt in run.attempts:
        if attempt.request is None:
            nobodys.append(attempt)
        else:
            own[attempt.request].append(attempt)
    again: list[Attempt] = []
    """Every attempt that is a retry."""
    phases = []
    for place, ((name, window, requests), (start_ns, end_ns)) in enumerate(zip(books, spans, strict=True)):
        ledger = _Ledger(models)
        for request in requests:
            if owners[request.id] == place:
                again += ledger.take(request, own.get(request.id, ()))
        first, last = (bisect_left(nobodys, ns, key=_start_ns) for ns in (start_ns, end_ns))
        phases.append(ledger.close(name, window, nobodys[first:last]))
    wire = _Wire(run, again, nobodys)
    begin_ns, first_ns = spans[0]
    baseline = wire.load(begin_ns, first_ns, None)
    storms = tuple(_storm(run, window, wire, baseline) for window in run.windows)
    return Accounting(baseline=baseline, storms=storms, phases=tuple(phases), rates=wire.rates())


def _phases(run: Run) -> tuple[list[tuple[PhaseName, str | None, list[Request]]], list[tuple[int, int]]]:
    """List the phases with their requests, and the time each takes. A request of two phases is the later one's: a window's."""
    begin_ns = run.phases[0].start_ns if run.phases else 0
    if not run.windows:
        return [("baseline", None, list(run.requests))], [(begin_ns, run.end_ns + 1)]
    first = run.windows[0]
    books: list[tuple[PhaseName, str | None, list[Request]]] = [("baseline", None, run.before(first))]
    spans = [(begin_ns, first.injected_ns)]
    for window in run.windows:
        lifted_ns, until_ns = run.lifted_or_end_ns(window), run.next_injection_ns(window)
        books.append(("fault", window.id, run.during(window)))
        books.append(("recovery", window.id, run.after(window)))
        spans += [(window.injected_ns, lifted_ns), (lifted_ns, until_ns)]
    return books, spans


def _start_ns(attempt: Attempt) -> int:
    return attempt.start_ns


def _dropped(own: Sequence[Attempt]) -> frozenset[str]:
    """Name the attempts that their client left since another, side by side with them, had brought the answer; rule 2."""
    left = [attempt for attempt in own if attempt.end in _LEFT]
    if not left:
        return frozenset()
    good = sorted((a for a in own if not _failed(a)), key=lambda a: a.end_ns)
    ends = [a.end_ns for a in good]
    found = []
    for attempt in left:
        first = bisect_left(ends, max(attempt.start_ns, attempt.end_ns - _DROP_NS))
        last = bisect_left(ends, attempt.end_ns + _GRAIN_NS)
        if any(won.start_ns < attempt.end_ns for won in good[first:last]):
            found.append(attempt.id)
    return frozenset(found)


def _failed(attempt: Attempt) -> bool:
    if attempt.status is None or attempt.status >= 400 or attempt.end != "clean":
        return True
    # An answer that a script made up has no terminal state of the endpoint's; one that came unaltered is the endpoint's own.
    return attempt.upstream and not (attempt.terminal or attempt.intact)


class _Open:
    """A failed attempt that nothing has followed yet."""

    __slots__ = ("attempt", "chain")

    def __init__(self, attempt: Attempt, chain: "_Chain") -> None:
        self.attempt, self.chain = attempt, chain


class _Chain:
    """One call, and all attempts that were made of it."""

    __slots__ = ("attempts", "attempts_a_try", "billed", "sdk", "tries", "unread")

    def __init__(self) -> None:
        self.tries = self.attempts = self.attempts_a_try = 1
        self.sdk = 0
        self.billed = False
        self.unread: list[tuple[Attempt, Attempt]] = []
        """What followed without anybody knowing for which model, with what it follows."""


class _Ledger:
    """Sums over the requests of one phase."""

    def __init__(self, models: Models) -> None:
        self.models = models
        self.counts: list[int] = []
        self.most = 0
        self.layers: Counter[str] = Counter()
        self.most_cites: tuple[Cite, ...] = ()
        self.nested: list[int] = [0, 0, 0, 0]
        self.nested_cites: tuple[Cite, ...] = ()
        self.pauses_s: list[float] = []
        self.at_once: list[Cite] = []
        self.at_once_n = 0
        self.unread_n = 0
        self.waits: Counter[str] = Counter()
        self.longest_s: float | None = None
        self.most_early_s: float | None = None
        self.early_cites: tuple[Cite, ...] = ()
        self.left: list[Cite] = []
        self.tokens: Counter[str] = Counter()
        self.again: list[Cite] = []
        self.nobody_n = 0
        self.nobody: list[Cite] = []

    def take(self, request: Request, own: Sequence[Attempt]) -> list[Attempt]:
        """Book one request with its attempts by start; give those that are retries."""
        n = len(own)
        self.counts.append(n)
        if n > self.most:
            self.most, self.most_cites = n, tuple(a.cite for a in own[:_CITES])
        retries: list[Attempt] = []
        open_ones: list[_Open] = []
        chains: list[_Chain] = []
        dropped = _dropped(own)
        for place, attempt in enumerate(own):
            layer, chain, followed = _follow(attempt, open_ones, chains, self.models)
            self.layers[layer] += 1
            if layer in _RETRIES:
                retries.append(attempt)
                if followed is not None and followed.asked_s is None:
                    self._pause(attempt, followed)
                if request.end_ns is not None and attempt.start_ns > request.end_ns + _GRAIN_NS:
                    self.nobody_n += 1
                    if len(self.nobody) < _CITES:
                        self.nobody.append(attempt.cite)
            self._spend(attempt, again=chain.billed)
            chain.billed = chain.billed or _billed(attempt)
            if attempt.asked_by is not None:
                self._wait(request, attempt, own, place)
            if layer == "unread" and followed is not None and followed.asked_s is None:
                self._unread(attempt, followed, chain)
            if _failed(attempt) and attempt.id not in dropped:
                open_ones.append(_Open(attempt, chain))
        self._nest(chains, own)
        return retries

    def _pause(self, attempt: Attempt, followed: Attempt) -> None:
        pause_s = max(0, attempt.start_ns - followed.end_ns) / 1e9
        self.pauses_s.append(pause_s)
        if pause_s < AT_ONCE_S:
            self.at_once_n += 1
            if len(self.at_once) < _CITES:
                self.at_once.append(attempt.cite)

    def _unread(self, attempt: Attempt, followed: Attempt, chain: "_Chain") -> None:
        """Take what follows unread as a retry's pause once there is a second of one call; rule 6."""
        chain.unread.append((attempt, followed))
        if len(chain.unread) < _UNREAD:
            return
        for one, before in chain.unread if len(chain.unread) == _UNREAD else chain.unread[-1:]:
            self.unread_n += 1
            self._pause(one, before)

    def _spend(self, attempt: Attempt, *, again: bool) -> None:
        if not _billed(attempt):
            return
        self.tokens["attempts"] += 1
        if attempt.tokens is not None:
            self.tokens["told"] += attempt.tokens
            self.tokens["again"] += attempt.tokens if again else 0
        else:
            self.tokens["estimated"] += attempt.tokens_estimated or 0
            self.tokens["again_estimated"] += attempt.tokens_estimated or 0 if again else 0
        if again:
            self.tokens["again_attempts"] += 1
            if len(self.again) < _CITES:
                self.again.append(attempt.cite)

    def _wait(self, request: Request, asking: Attempt, own: Sequence[Attempt], place: int) -> None:
        asked_s = asking.asked_s
        if asked_s is None:
            self.waits["unreadable"] += 1
            return
        self.waits["asked"] += 1
        self.longest_s = asked_s if self.longest_s is None else max(self.longest_s, asked_s)
        said_ns = asking.first_ns if asking.first_ns is not None else asking.end_ns
        following = next(
            (
                later
                for later in islice(own, place + 1, None)
                if later.start_ns >= said_ns and (later.dialect, later.model) == (asking.dialect, asking.model)
            ),
            None,
        )
        if following is None:
            until_ns = said_ns + asked_s * 1e9
            left = request.outcome in ("timeout", "never_ended") and (request.end_ns or 0) < until_ns
            self.waits["user_left" if left else "gave_up"] += 1
            if left and len(self.left) < _CITES:
                self.left.append(asking.cite)
            return
        short_s = asked_s - (following.start_ns - said_ns) / 1e9
        if short_s <= (DATE_GRAIN_S if asking.asked_by == "date" else GRAIN_S):
            self.waits["kept"] += 1
            return
        self.waits["early"] += 1
        if self.most_early_s is None or short_s > self.most_early_s:
            self.most_early_s = short_s
            self.early_cites = (asking.cite, following.cite)

    def _nest(self, chains: Iterable[_Chain], own: Sequence[Attempt]) -> None:
        worst = max((c for c in chains if c.sdk and c.tries > 1), key=lambda c: c.attempts, default=None)
        if worst is None:
            return
        self.nested[0] += 1
        if worst.attempts > self.nested[3]:
            self.nested[1:] = [worst.tries, worst.attempts_a_try, worst.attempts]
            self.nested_cites = tuple(a.cite for a in own[:_CITES])

    def close(self, name: PhaseName, window: str | None, nobodys: Sequence[Attempt]) -> Phase:
        total, n = sum(self.counts), len(self.counts)
        waits, tokens, unattributed = self.waits, self.tokens, len(nobodys)
        for attempt in filter(_billed, nobodys):
            if attempt.tokens is not None:
                tokens["nobodys"] += attempt.tokens
            else:
                tokens["nobodys_estimated"] += attempt.tokens_estimated or 0
        return Phase(
            name=name,
            window=window,
            requests=n,
            attempts=total,
            unattributed=unattributed,
            mean=_bounded(Exact(total / n, n) if n else Absent("no requests"), unattributed),
            p95=_bounded(quantile(self.counts, 0.95), unattributed),
            most=_bounded(Exact(float(self.most), n) if n else Absent("no requests"), unattributed),
            most_cites=self.most_cites,
            layers=Layers(**self.layers),
            nested=Nested(
                requests=self.nested[0],
                tries=self.nested[1],
                attempts_a_try=self.nested[2],
                attempts=self.nested[3],
                cites=self.nested_cites,
            ),
            pauses=Pauses(
                retries=len(self.pauses_s),
                at_once=self.at_once_n,
                unread=self.unread_n,
                p50_s=median(self.pauses_s),
                cites=tuple(self.at_once),
            ),
            waits=Waits(
                **waits,
                longest_s=self.longest_s,
                most_early_s=self.most_early_s,
                early_cites=self.early_cites,
                left_cites=tuple(self.left),
            ),
            tokens=Tokens(**tokens, again_cites=tuple(self.again)),
            for_nobody=self.nobody_n,
            for_nobody_cites=tuple(self.nobody),
        )


def _follow(
    attempt: Attempt, open_ones: list[_Open], chains: list[_Chain], models: Models
) -> tuple[str, _Chain, Attempt | None]:
    """Say why an attempt was sent, which call it is of, and which failed attempt it follows; rule 3."""
    count = attempt.retry_count
    over = same = unread = open_ones
    if open_ones:
        until_ns, tool = attempt.start_ns + _GRAIN_NS, attempt.dialect in _TOOLS
        over = [one for one in open_ones if one.attempt.end_ns <= until_ns and (one.attempt.dialect in _TOOLS) is tool]
        asks = [(one, models.one(one.attempt, attempt)) for one in over]
        same = [one for one, alike in asks if alike]
        unread = [one for one, alike in asks if alike is None]
    chosen: _Open | None = None
    if count:
        layer = "sdk"
        likely = same or unread or over
        before = [one for one in likely if one.attempt.retry_count == count - 1]
        chosen = next(iter(before or likely), None)
    elif same:
        layer = "untold" if count is None else "above"
        chosen = same[0]
    elif unread:
        layer, chosen = "unread", unread[0]
    elif over:
        layer, chosen = "elsewhere", over[0]
    else:
        layer = "call"
    if chosen is not None:
        open_ones.remove(chosen)
        chain = chosen.chain
    elif layer == "sdk" and chains:
        chain = chains[-1]  # it follows an attempt that is not over yet as the wire saw it, or one that never got here
    else:
        chain = _Chain()  # a retry that begins a request follows what never got here
        chain.sdk, chain.attempts_a_try = int(layer == "sdk"), (count or 0) + 1
        chains.append(chain)
        return layer, chain, None
    chain.attempts += 1
    if layer == "sdk":
        chain.sdk += 1
        chain.attempts_a_try = max(chain.attempts_a_try, (count or 0) + 1)
    elif layer == "above":
        chain.tries += 1
    return layer, chain, None if chosen is None else chosen.attempt


def _billed(attempt: Attempt) -> bool:
    return attempt.dialect not in _TOOLS and bool(attempt.tokens or attempt.tokens_estimated)


def _bounded(measure: Measure, unattributed: int) -> Measure:
    """What is counted of some attempts is a lower bound where others may belong to the same requests."""
    return AtLeast(measure.value, measure.n) if unattributed and isinstance(measure, Exact) else measure


class _Wire:
    """Attempts and users' requests by time."""

    def __init__(self, run: Run, again: list[Attempt], nobodys: list[Attempt]) -> None:
        self._run = run
        self._nobodys = nobodys
        self._starts = [a.start_ns for a in run.attempts]
        self._retries = sorted(a.start_ns for a in again)
        self._due = [r.due_ns for r in run.requests]

    def rates(self) -> Rates:
        """Count both over the run, in the narrowest bins of `_BINS_S` that are few enough."""
        end_ns = max([self._run.end_ns, *self._starts[-1:], *self._due[-1:]]) + 1
        bin_ns = next((round(s * 1e9) for s in _BINS_S if end_ns <= s * 1e9 * MOST_BINS), -(-end_ns // MOST_BINS))
        count = -(-end_ns // bin_ns)
        attempts, due = (Counter(ns // bin_ns for ns in times) for times in (self._starts, self._due))
        return Rates(
            bin_s=bin_ns / 1e9,
            attempts=tuple(attempts[place] for place in range(count)),
            due=tuple(due[place] for place in range(count)),
        )

    def load(self, start_ns: int, end_ns: int, baseline: Load | None) -> Load:
        """Take the load of a stretch, and its storm factor against the baseline (None: this is the baseline)."""
        first, last = bisect_left(self._starts, start_ns), bisect_left(self._starts, end_ns)
        due = bisect_left(self._due, end_ns) - bisect_left(self._due, start_ns)
        attempts = last - first
        each: Measure = Exact(attempts / due, due) if due else Absent("no user request was due")
        seconds = Counter((ns - start_ns) // 10**9 for ns in self._starts[first:last])
        return Load(
            start_s=start_ns / 1e9,
            end_s=end_ns / 1e9,
            due=due,
            attempts=attempts,
            retries=bisect_left(self._retries, end_ns) - bisect_left(self._retries, start_ns),
            unattributed=bisect_left(self._nobodys, end_ns, key=_start_ns)
            - bisect_left(self._nobodys, start_ns, key=_start_ns),
            each=each,
            factor=_over(each, each if baseline is None else baseline.each),
            peak_per_s=max(seconds.values(), default=0),
            cites=tuple(a.cite for a in self._run.attempts[first : min(last, first + _CITES)]),
        )


def _over(each: Measure, usual: Measure) -> Measure:
    if not isinstance(each, Exact):
        return each
    if not isinstance(usual, Exact) or not usual.value:
        return Absent("no attempt in the baseline")
    return Exact(each.value / usual.value, each.n)


def _storm(run: Run, window: Window, wire: _Wire, baseline: Load) -> Storm:
    lifted_ns = run.lifted_or_end_ns(window)
    until_ns = run.next_injection_ns(window)
    every_s = run.manifest.every_s if run.manifest else 0.0
    back_ns = min(until_ns, lifted_ns + round(max(RETURN_S, RETURN_PERIODS * every_s) * 1e9))
    lifted = window.lifted_ns is not None
    return Storm(
        window=window.id,
        fault=wire.load(window.injected_ns, lifted_ns, baseline),
        back=wire.load(lifted_ns, back_ns, baseline) if lifted and back_ns > lifted_ns else None,
        rest=wire.load(back_ns, until_ns, baseline) if lifted and until_ns > back_ns else None,
    )
