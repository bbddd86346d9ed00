"""The table for people: text for a terminal, Markdown for the docs, what changed between two, what an expectation says.

Rows are faults, in the catalogue's order; columns are clients. Pure: strings in, strings out.
"""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

import msgspec

from drillmaster.errors import one_line
from drillmaster.policy import Pin
from drillmaster.sdkcheck import ALL, BUSY_RATIO, Defaults, Outcome, Result, Table
from drillmaster.sdkcheck.cells import is_asked_for_status

__all__ = [
    "Expectation",
    "Expectations",
    "broken",
    "changes",
    "markdown",
    "parts",
    "shown",
    "span",
    "summary",
    "text",
    "unseen",
]

NO_END = "no end"
WORST_GRAIN_S = 3.0
"""By how much worst cases of one kind differ from run to run: back-off, and a busy machine."""


class Expectation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What must hold for the cells that `client`, `fault` and `stream` choose. A limit that is left out is not asked."""

    client: str
    """A name, or a pattern with `*`."""
    fault: str
    """The fault's label, or a pattern with `*`: `stall`, `rate-limit*`."""
    stream: bool | None = None
    """None: both."""
    outcome: tuple[Outcome, ...] | None = None
    fallback: bool | None = None
    max_attempts: int | None = None
    max_worst_s: float | None = None


class Expectations(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="sdk-expectations"
):
    """A policy of expectations; like every policy it has a source, an owner and a review date."""

    source: str
    owner: str
    review_by: str
    expect: tuple[Expectation, ...]

    @property
    def pin(self) -> Pin:
        return Pin(source=self.source, owner=self.owner, review_by=self.review_by)


def span(seconds: float | None) -> str:
    """Seconds as people say them; None is `no end`."""
    if seconds is None:
        return NO_END
    if seconds < 120:
        return f"{seconds:.1f} s"
    if seconds < 7_200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3_600:.1f} h"


def shown(result: Result) -> str:
    """One cell as text: what happened, attempts, seconds, whether a fallback engaged."""
    tries = "-" if result.attempts is None else str(result.attempts)
    if result.outcome == "raised":
        head = result.what.partition(".")[2] or result.what if result.caught else result.what
    else:
        head = {
            "answered": "answered",
            "fooled": f"LOOKED LIKE SUCCESS: {result.what}",
            "waiting": "STILL WAITING",
            "not-met": "not met",
            "crashed": f"no result: {result.what}",
        }[result.outcome]
    missed = " NOT CAUGHT" if result.outcome == "raised" and not result.caught else ""
    least = ">" if result.outcome == "waiting" else ""
    return f"{head}{missed} / {tries} / {least}{result.seconds:.1f} s"


def text(table: Table) -> str:
    """The table for a terminal: one line a cell, grouped by fault, with its worst case and its wire log."""
    lines = [_title(table), ""]
    width = max((len(result.client) for result in table.results), default=0)
    for label, results in _rows(table):
        lines.append(label)
        for result in results:
            if result.outcome == "not-met":
                continue
            mode = "stream" if result.stream else "whole "
            engaged = {True: "fallback engages", False: "NO FALLBACK", None: "-"}[result.fallback]
            lines.append(
                f"  {result.client:{width}}  {mode}  {shown(result):60}  {engaged:16}  worst {span(result.worst_s):8}  {result.log}"
            )
    lines += ["", *_left_out(table), *summary(table), *asked_status(table)]
    return "\n".join(one_line(line.rstrip()) for line in lines) + "\n"


_LEGEND = (
    "A cell is *what was raised / requests on the wire / seconds*, and the worst case with the client's own time limits where",
    "that is longer. **NOT CAUGHT**: `except` of the client's own error class misses it, and so does a fallback that stands",
    "there. **LOOKED LIKE SUCCESS**: nothing was raised and the answer is not the answer. **STILL WAITING**: no outcome when the",
    "watch ended. *not met*: the fault found nothing to do.",
    "",
    "Each client is told an error in the words of its own API: `quota-spent` is a 429 of OpenAI's and a 402 of Anthropic's, and",
    "only the first is retried; `overloaded` is OpenAI's 503, Anthropic's 529, Groq's 498. The page that `login-redirect` leads",
    "to is there. HTTP clients look at the status, as `raise_for_status` does.",
)
_NO_PROOF = (
    "A fallback that *would have engaged* is one that stands in an `except` of the client's own error class around the call.",
    "Whether yours does, and whether what it falls back to works, is what a drill against your agent shows. Clients were asked",
    "over plain HTTP/1.1 on loopback: nothing here is about TLS, HTTP/2, proxies on the way, or asynchronous variants of a",
    "client.",
)


def markdown(table: Table, made_by: str) -> str:
    """The page for the docs. `made_by` is the command that made it."""
    lines = [
        "# What SDKs do under each fault",
        "",
        f"Measured on {table.made_at[:10]} by `{made_by}` (drillmaster {table.drillmaster}, Python {table.python}), with the",
        f"clients' time limit set to {table.limit_s:g} s and each cell watched for {table.watch_s:g} s. Run it in your own "
        "environment: your versions decide.",
        "",
        *(word for line in _busy(table) for word in (f"**{line}**", "")),
        *_LEGEND,
        "",
        "| client | version | connect / read limit by default | retries |",
        "|---|---|---|---|",
    ]
    for client in table.clients:
        own = table.defaults.get(client.name)
        limits = "?" if own is None else f"{_limit(own.connect_s)} / {_limit(own.read_s)}"
        if own is not None and own.total_s is not None:
            limits += f", {span(own.total_s)} in all"
        if own is not None and own.body_s is not None:
            limits += f", {own.body_s:g} s of silence in a body"
        lines.append(f"| {client.name} | {client.version} | {limits} | {'?' if own is None else own.retries} |")
    for part in parts(table):
        lines += ["", f"## {part.title}", "", "| fault | " + " | ".join(part.clients) + " |"]
        lines.append("|---" * (len(part.clients) + 1) + "|")
        for label, results in part.rows:
            cells = ["" if result is None else _escaped(_with_worst(result)) for result in results]
            lines.append(f"| {label} | " + " | ".join(cells) + " |")
    lines += ["", "## Worst case before a user sees anything", ""]
    lines.append("With each client's own time limits and retries in place of ours; back-off as measured.")
    lines += ["", "| client | worst | under |", "|---|---|---|"]
    lines += [f"| {name} | {worst} | {_escaped(under)} |" for name, worst, under in _worst(table)]
    left_out = _left_out(table)
    if left_out:
        lines += ["", "## Not run", "", *(f"- {line.removeprefix('not run: ')}" for line in left_out)]
    lines += [
        "",
        "## What this does not prove",
        "",
        *_NO_PROOF,
    ]
    return "\n".join(lines) + "\n"


def _with_worst(result: Result) -> str:
    """A cell, and its worst case where that is another matter than what was measured."""
    near = result.worst_s is not None and result.worst_s < result.seconds + 1
    return shown(result) if near or result.outcome == "not-met" else f"{shown(result)}, worst {span(result.worst_s)}"


class Part(msgspec.Struct, frozen=True):
    """One table for people: a family of clients, whole or streamed answers."""

    title: str
    clients: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Result | None, ...]], ...]
    """A fault's label, and its result for each client; None where there is none. Where all met nothing there is no row."""


def parts(table: Table) -> list[Part]:
    """Divide the results into tables that can be read."""
    found = []
    families = dict.fromkeys(client.family for client in table.clients)
    for stream, mode in ((False, "Whole answers"), (True, "Streamed answers")):
        for family in families:
            names = tuple(
                client.name
                for client in table.clients
                if client.family == family and stream in client.modes and client.name in table.defaults
            )
            rows = []
            for label, results in _rows(table):
                mine = {result.client: result for result in results if result.stream == stream}
                row = tuple(mine.get(name) for name in names)
                if any(result is not None and result.outcome != "not-met" for result in row):
                    rows.append((label, row))
            if rows:
                found.append(Part(f"{mode}: {family}", names, tuple(rows)))
    return found


def summary(table: Table) -> list[str]:
    """What to remember of it: how often no fallback would have engaged, and the worst case, for each client."""
    lines = _busy(table)
    for name, worst, under in _worst(table):
        mine = [r for r in table.results if r.client == name and r.outcome in ("raised", "fooled", "waiting")]
        misses = [r for r in mine if not r.fallback]
        kinds = [
            f"{sum(r.outcome == 'fooled' for r in misses)} looked like success",
            f"{sum(r.outcome == 'raised' for r in misses)} raised past its own error class",
            f"{sum(r.outcome == 'waiting' for r in misses)} still waiting",
        ]
        version = next((client.version for client in table.clients if client.name == name), "")
        lines.append(
            f"{name} {version}: no fallback in {len(misses)} of {len(mine)} failures ({', '.join(kinds)}); "
            f"worst case before a user sees anything: {worst} ({under})"
        )
    return lines


def asked_status(table: Table) -> list[str]:
    """Whose errors for a status are this check's doing, where there are such."""
    measured = {result.client for result in table.results}
    names = [client.name for client in table.clients if client.name in measured and is_asked_for_status(client)]
    if not names:
        return []
    return [
        f"{', '.join(names)}: raised for a status because this check looks at it (raise_for_status, response.ok); by itself the "
        "client raises nothing, and code that does not look takes a 503 for an answer"
    ]


def _busy(table: Table) -> list[str]:
    """What stands before everything else where the machine had too much of a part in it."""
    if table.late_s <= BUSY_RATIO * table.limit_s:
        return []
    return [
        f"This machine was busy: a cell had to wait {table.late_s:.1f} s for it. Seconds are too long, and a client may "
        "have timed out, tried again or be waiting for the machine alone. Run again when it is quiet."
    ]


def changes(old: Table, new: Table, *, asked: bool = False) -> list[str]:
    """List what is different: how it was measured, versions, limits, then cells.

    A cell has moved with its outcome, class, attempts, fallback or worst case; seconds always differ. `asked`: only some
    clients or faults were; what the old table has beside them is not gone.
    """
    lines = []
    for name, was_s, is_s in (("--limit-s", old.limit_s, new.limit_s), ("--watch-s", old.watch_s, new.watch_s)):
        if was_s != is_s:
            lines.append(f"measured with another {name}: {was_s:g} -> {is_s:g}; cells may have moved for that alone")
    before_version = {client.name: client.version for client in old.clients}
    for client in new.clients:
        was = before_version.get(client.name)
        if was != client.version:
            lines.append(f"{client.name}: {was or 'not there'} -> {client.version}")
    names = {client.name for client in new.clients}
    if not asked:
        lines += [f"{name}: {was} -> not there" for name, was in before_version.items() if name not in names]
    for name, own in new.defaults.items():
        had = old.defaults.get(name)
        if had is not None and had != own:
            lines.append(f"{name}: by default {_limits(had)} -> {_limits(own)}")
    # A client that one of the two tables has nothing of is one line, and not one for each of its cells.
    lost = {entry.client: entry.why for entry in new.not_run if entry.failed and entry.label == ALL}
    lines += [f"{name}: was measured, and is not: {why}" for name, why in lost.items() if name in old.defaults]
    lines += [
        f"{name}: was not measured, and is" for name in new.defaults if name in before_version.keys() - old.defaults
    ]
    before = {_key(result): result for result in old.results if result.client in new.defaults}
    after = {_key(result): result for result in new.results if result.client in old.defaults}
    for key, result in after.items():
        was_result = before.get(key)
        if was_result is None:
            lines.append(f"{_name(result)}: new: {shown(result)}")
        elif _essence(was_result) != _essence(result) or not _alike(was_result.worst_s, result.worst_s):
            lines.append(f"{_name(result)}: {_with_worst(was_result)} -> {_with_worst(result)}")
    labels = {result.label for result in new.results}
    for key, result in before.items():
        if key not in after and not (asked and result.label not in labels):
            lines.append(f"{_name(result)}: gone, was {shown(result)}")
    return lines


def _alike(was_s: float | None, is_s: float | None) -> bool:
    """Whether two worst cases are one but for what back-off and a busy machine add."""
    if was_s is None or is_s is None:
        return was_s is is_s
    return abs(was_s - is_s) <= max(WORST_GRAIN_S, 0.1 * max(was_s, is_s))


def _limits(own: Defaults) -> str:
    """What a client limits by itself, in words."""
    said = f"{span(own.connect_s) if own.connect_s is not None else 'no limit'} to connect, "
    said += f"{span(own.read_s) if own.read_s is not None else 'no limit'} to read"
    if own.total_s is not None:
        said += f", {span(own.total_s)} in all"
    if own.body_s is not None:
        said += f", {span(own.body_s)} of silence in a body"
    return f"{said}, {own.retries} retries"


def broken(expect: Sequence[Expectation], results: Iterable[Result]) -> tuple[list[str], list[int]]:
    """What does not hold, as sentences, and the numbers of expectations that chose no cell, from 0."""
    measured = [result for result in results if result.outcome not in ("not-met", "crashed")]
    said: list[str] = []
    idle: list[int] = []
    for number, rule in enumerate(expect):
        mine = [
            result
            for result in measured
            if fnmatchcase(result.client, rule.client)
            and fnmatchcase(result.label, rule.fault)
            and rule.stream in (None, result.stream)
        ]
        if not mine:
            idle.append(number)
        for result in mine:
            said += [f"{_name(result)}: {why} ({result.log})" for why in _breaks(rule, result)]
    return said, idle


def unseen(expect: Sequence[Expectation], table: Table) -> list[tuple[int, str]]:
    """What expectations chose and nobody measured: a client that could not be called, a call that ended without a word."""
    lost = [(entry.client, entry.label, entry.why) for entry in table.not_run if entry.failed]
    lost += [(r.client, r.label, r.what) for r in table.results if r.outcome == "crashed"]
    return [
        (number, f"{client}, {label}: {why}")
        for number, rule in enumerate(expect)
        for client, label, why in lost
        if fnmatchcase(client, rule.client) and (label == ALL or fnmatchcase(label, rule.fault))
    ]


def _breaks(rule: Expectation, result: Result) -> list[str]:
    found = []
    if rule.outcome is not None and result.outcome not in rule.outcome:
        found.append(f"{shown(result)}, wanted {' or '.join(rule.outcome)}")
    if rule.fallback is not None and result.fallback is not None and result.fallback != rule.fallback:
        found.append(f"{shown(result)}, wanted {'a' if rule.fallback else 'no'} fallback")
    if rule.max_attempts is not None and (result.attempts is None or result.attempts > rule.max_attempts):
        seen = "nobody knows how many" if result.attempts is None else result.attempts
        found.append(f"{seen} requests on the wire, wanted at most {rule.max_attempts}")
    if rule.max_worst_s is not None and (result.worst_s is None or result.worst_s > rule.max_worst_s):
        found.append(f"worst case {span(result.worst_s)}, wanted at most {rule.max_worst_s:g} s")
    return found


def _key(result: Result) -> tuple[str, str, bool]:
    return result.client, result.label, result.stream


def _essence(result: Result) -> tuple[object, ...]:
    # What came of text that was cut by the clock differs from run to run; that it looked like success does not.
    what = result.what if result.outcome == "raised" else ""
    return result.outcome, what, result.attempts, result.fallback


def _name(result: Result) -> str:
    return f"{result.client}, {result.label}, {'streamed' if result.stream else 'whole'}"


def _rows(table: Table) -> list[tuple[str, list[Result]]]:
    order = {client.name: number for number, client in enumerate(table.clients)}
    rows: dict[str, list[Result]] = {}
    for result in sorted(table.results, key=lambda r: (r.label, r.stream, order.get(r.client, 0))):
        rows.setdefault(result.label, []).append(result)
    return list(rows.items())


def _worst(table: Table) -> list[tuple[str, str, str]]:
    found = []
    for client in table.clients:
        mine = [r for r in table.results if r.client == client.name and r.outcome not in ("not-met", "crashed")]
        if not mine:
            continue
        endless = sorted({r.label for r in mine if r.worst_s is None})
        ended = [r for r in mine if r.label not in endless]
        most_s = max((r.worst_s or 0.0 for r in ended), default=0.0)
        # Several faults cost the same limits; the plainest name stands for them.
        near = [r for r in ended if (r.worst_s or 0.0) >= 0.99 * most_s]
        top = min(near, key=lambda r: (len(r.label), r.label), default=None)
        under = [] if top is None else [f"{span(top.worst_s)} under {top.label}"]
        if endless:
            found.append((client.name, NO_END, f"{', '.join(endless)}; else {''.join(under) or 'nothing'}"))
        elif top is not None:
            found.append((client.name, span(top.worst_s), top.label))
    return found


def _left_out(table: Table) -> list[str]:
    """What has no result, by why: the faults, and the clients unless it is all of them."""
    found: dict[tuple[str, str], list[str]] = {}
    for entry in table.not_run:
        found.setdefault((entry.client, entry.why), []).append(entry.label)
    lines = [f"{', '.join(dict.fromkeys(labels))} ({client}): {why}" for (client, why), labels in found.items()]
    unmet: dict[str, list[str]] = {}
    for result in table.results:
        if result.outcome == "not-met":
            unmet.setdefault(result.label, []).append(f"{result.client} {'streamed' if result.stream else 'whole'}")
    lines += [f"{label} ({', '.join(cells)}): it met nothing to act on" for label, cells in unmet.items()]
    return [one_line(f"not run: {line}") for line in lines]


def _title(table: Table) -> str:
    clients = " · ".join(f"{client.name} {client.version}" for client in table.clients)
    return f"{clients}: {len(table.results)} cells in {table.took_s:.0f} s, time limit {table.limit_s:g} s"


def _limit(seconds: float | None) -> str:
    return "**none**" if seconds is None else f"{seconds:g} s"


def _escaped(cell: str) -> str:
    for word in ("NOT CAUGHT", "LOOKED LIKE SUCCESS", "STILL WAITING"):
        cell = cell.replace(word, f"**{word}**")
    return cell.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
