"""What an accounting of retries points at: cause and next step, from one window's numbers. Never a status."""

from collections.abc import Iterator

from drillmaster.outcomes import Window
from drillmaster.policy import seconds_text, share_text
from drillmaster.retries.shapes import AT_ONCE_S, Accounting, Load, Phase, Storm
from drillmaster.verdict import Exact, Finding, Measure

__all__ = ["retry_findings"]

STORM_ATTEMPTS = 4.0
"""Attempts for each user request from which retries are called a storm; an SDK's own default is 3 (2 retries)."""
RETURN_FACTOR = 2.0
"""The load of a return, against the baseline's, from which it is called one too."""
RETURN_ATTEMPTS = 10
"""The fewest attempts that a return is judged by."""
FEW = 3
"""What happens more seldom than this says nothing of a habit."""


def retry_findings(books: Accounting, window: Window) -> Iterator[Finding]:
    """Yield what the accounting shows for one window."""
    fault = books.phase("fault", window.id)
    storm = books.storm(window.id)
    if fault is None or storm is None or not fault.requests:
        return
    yield from _storm(books, storm)
    yield from _nested(fault)
    yield from _waits(fault)
    yield from _pauses(fault)
    yield from _for_nobody(fault)
    yield from _return(books, storm)
    yield from _billed_again(fault)


def _storm(books: Accounting, storm: Storm) -> Iterator[Finding]:
    load = storm.fault
    each, usual = _value(load.each), _value(books.baseline.each)
    if each is None or each <= STORM_ATTEMPTS * max(1.0, usual or 0.0):
        return
    against = f"baseline {usual:.1f}" if usual is not None else "no baseline"
    yield Finding(
        id="retry-storm",
        cause=f"{load.attempts} attempts for {load.due} user requests in the fault, {each:.1f} each ({against}): retries "
        "multiply the load on an endpoint that is down",
        next="cap total attempts per user request over all layers, with a retry budget and full jitter",
        cites=load.cites[:2],
    )


def _nested(fault: Phase) -> Iterator[Finding]:
    nested = fault.nested
    if nested.requests < min(FEW, fault.requests):
        return
    yield Finding(
        id="nested-retries",
        cause=f"retries multiply: the SDK sends up to {nested.attempts_a_try} attempts a call, and something above it calls up to "
        f"{nested.tries} times; the worst call became {nested.attempts} attempts ({nested.requests} requests had both)",
        next="let one layer own the retries: max_retries=0 on the SDK's client, or no loop around it",
        cites=nested.cites,
    )


def _waits(fault: Phase) -> Iterator[Finding]:
    waits = fault.waits
    if waits.early and waits.most_early_s is not None:
        yield Finding(
            id="retried-too-early",
            cause=f"{waits.early} of {waits.asked} answers that asked for a wait were followed before it was over, "
            f"by up to {seconds_text(round(waits.most_early_s, 2))}; the longest wait was {_seconds(waits.longest_s)}",
            next="wait as long as Retry-After asks, or do not try again; never earlier",
            cites=waits.early_cites,
        )
    if waits.user_left >= FEW:
        yield Finding(
            id="slept-too-long",
            cause=f"{waits.user_left} users gave up while the client slept for what it was asked to wait, "
            f"up to {_seconds(waits.longest_s)}",
            next="compare a wait with what is left of the user's time before sleeping: where it does not fit, fall back at once",
            cites=waits.left_cites,
        )


def _pauses(fault: Phase) -> Iterator[Finding]:
    pauses = fault.pauses
    if pauses.retries < FEW or 2 * pauses.at_once <= pauses.retries:
        return
    layers = fault.layers
    who = {
        "the SDK": layers.sdk,
        "the layer above the SDK": layers.above,
        "a client that does not say": layers.untold,
        "a client whose bodies the fault left unread (a loop, or several fallbacks)": pauses.unread,
    }
    yield Finding(
        id="no-backoff",
        cause=f"{pauses.at_once} of {pauses.retries} retries came within {seconds_text(AT_ONCE_S)} of the failure, most of all by "
        f"{max(who, key=lambda name: who[name])}: nothing pauses between attempts",
        next="back off exponentially with full jitter, beginning at half a second or more",
        cites=pauses.cites,
    )


def _for_nobody(fault: Phase) -> Iterator[Finding]:
    retries = fault.layers.retries
    if fault.for_nobody < FEW or 10 * fault.for_nobody < retries:
        return
    yield Finding(
        id="retries-for-nobody",
        cause=f"{fault.for_nobody} of {retries} retries began when their user had an answer or had given up",
        next="carry the user's deadline down to the model client, and cancel what is under way when the user leaves",
        cites=fault.for_nobody_cites,
    )


def _return(books: Accounting, storm: Storm) -> Iterator[Finding]:
    back, rest = storm.back, storm.rest
    factor = None if back is None else _value(back.factor)
    if back is not None and factor is not None and factor >= RETURN_FACTOR and back.attempts >= RETURN_ATTEMPTS:
        yield Finding(
            id="storm-on-return",
            cause=f"when the endpoint came back it met {factor:.1f} times the baseline's load for "
            f"{seconds_text(round(back.end_s - back.start_s, 1))}: {back.attempts} attempts for {back.due} user requests, "
            f"up to {back.peak_per_s} in one second",
            next="spread retries by full jitter, and drop what its user no longer waits for",
            cites=back.cites[:2],
        )
    if rest is None or rest.retries < FEW:
        return
    if _retries_each(rest) > 2 * _retries_each(books.baseline):
        yield Finding(
            id="retries-outlive-the-fault",
            cause=f"{rest.retries} retries began more than {seconds_text(round(rest.start_s - storm.fault.end_s, 1))} after the "
            f"lift, for {rest.due} user requests: the agent still works on what failed before, or fails anew",
            next="bound each request's retries by a deadline, and see why the primary's answers do not end them",
            cites=rest.cites[:2],
        )


def _billed_again(fault: Phase) -> Iterator[Finding]:
    tokens = fault.tokens
    again, paid = tokens.again + tokens.again_estimated, tokens.told + tokens.estimated
    # Tokens by `usage` and by bytes are no one sum: an estimate is high, of a stream many times so, and would hide the rest.
    mixed = bool(tokens.told and tokens.estimated)
    part, whole = (tokens.again_attempts, tokens.attempts) if mixed else (again, paid)
    if tokens.again_attempts < FEW or 10 * part < whole:
        return
    share = share_text(part / whole)
    if mixed:
        costs = (
            f"{tokens.again} tokens by their usage" if tokens.again else "",
            f"about {tokens.again_estimated} by their bytes" if tokens.again_estimated else "",
        )
        cause = (
            f"{part} of {whole} attempts that cost tokens in the fault ({share}; {' and '.join(filter(None, costs))}) were for "
            "calls that had been answered in part or in whole"
        )
    else:
        about = f", {again} of them estimated" if tokens.again_estimated else ""
        cause = (
            f"{again} of {paid} tokens of the fault ({share}{about}) were for calls that had cost some already: "
            f"{tokens.again_attempts} attempts sent again what had been answered in part or in whole"
        )
    yield Finding(
        id="billed-again",
        cause=cause,
        next="keep what a broken answer has brought, and count its tokens against the same budget as the retry's",
        cites=tokens.again_cites,
    )


def _value(measure: Measure) -> float | None:
    return measure.value if isinstance(measure, Exact) else None


def _retries_each(load: Load) -> float:
    return load.retries / load.due if load.due else 0.0


def _seconds(value: float | None) -> str:
    return "unknown" if value is None else seconds_text(round(value, 2))
