"""`docs/drill-matrix.md`: the matrix as people read it, with each row's last result and trend. Made from the file, never edited."""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from drillmaster.gates._matrix_rows import ChaosProbe, KillProbe, LoadProbe, Row, TranscriptsProbe
from drillmaster.slo.files import DrillMatrix

__all__ = ["Result", "is_stale", "render"]

Status = Literal["pass", "fail", "refused", "unjudged"]
_STAMP = re.compile(
    r"^<!-- drillmaster matrix render: matrix (sha256:[0-9a-f]{64}), page (sha256:[0-9a-f]{64})", re.MULTILINE
)
_MARKS = {"pass": "pass", "fail": "**FAIL**", "refused": "refused", "unjudged": "not judged"}
_LETTERS = {"pass": "p", "fail": "F", "refused": "r", "unjudged": "-"}
_MEANS = {
    "mission_latency": "how long a user waits for a whole mission, from when it was due",
    "mission_success": "how many missions came to the end that their flow expects",
    "detector_delay": "how long until the team is alerted, from the injection to the alert's receipt",
    "pager_ack": "how long until a person has acknowledged that alert",
    "tool_success": "in how many missions every tool call ended well, retries included",
    "replay_availability": "of how many missions the whole transcript is there for an audit",
    "kill_switch": "how long a capability still ran after it was killed",
}
_WINDOWS = {
    "all": "the whole drill",
    "baseline": "before the chaos",
    "chaos": "while flags are on",
    "recovery": "after the chaos",
}


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What one drill said of one row."""

    run: str
    ended_at: str
    """RFC 3339."""
    status: Status
    value: float | None = None
    """In seconds, or a share; None: there was none."""
    at_least: bool = False
    stamps: tuple[str, ...] = ()
    """What makes it worth less, such as REHEARSAL."""


def render(matrix: DrillMatrix, digest: str, results: Mapping[str, Sequence[Result]] | None = None) -> str:
    """Write the page. `results`: for each row's id its results, oldest first."""
    body = "\n".join(_lines(matrix, results or {})) + "\n"
    stamp = f"<!-- drillmaster matrix render: matrix {digest}, page {_digest(body)}; edit drill-matrix.yaml, not this page -->"
    return f"{stamp}\n\n{body}"


def is_stale(page: str, digest: str) -> str:
    """Say why a page is not what would be rendered of this matrix; "": it is.

    Results are the history's: a page that shows older ones is none the less of this matrix. One that a person has edited is not.
    """
    found = _STAMP.match(page)
    if found is None:
        return "it was not made by drillmaster matrix render"
    if found[1] != digest:
        return "the matrix has changed since it was rendered"
    body = page.partition("\n\n")[2]
    return "" if _digest(body) == found[2] else "it was edited by hand"


def _digest(body: str) -> str:
    return f"sha256:{hashlib.sha256(body.encode()).hexdigest()}"


def _lines(matrix: DrillMatrix, results: Mapping[str, Sequence[Result]]) -> Iterator[str]:
    yield f"# Drill matrix: {_cell(matrix.service)}"
    yield ""
    yield (
        f"{len(matrix.rows)} objectives that every Friday drill is held against. Source: {_cell(matrix.source)}. Owner: "
        f"{_cell(matrix.owner)}. To be reviewed by {_cell(matrix.review_by)}."
    )
    yield ""
    yield "## For executives"
    yield ""
    yield f"{_sentence(matrix, results)}"
    yield ""
    yield "| what is promised | target | last result | trend |"
    yield "|---|---|---|---|"
    for row in matrix.rows:
        told = results.get(row.id, ())
        yield f"| {_cell(row.name)} | {_code(row.objective)} | {_last(row, told)} | {_trend(row, told)} |"
    yield ""
    yield (
        "A trend is the last eight drills, the newest on the right: p pass, F fail, r refused (no answer), - not judged. Better "
        "and worse are against the first of them that has a figure."
    )
    yield ""
    yield "## For engineers"
    yield ""
    yield "| id | measure | objective | judged on | probe | owner | source |"
    yield "|---|---|---|---|---|---|---|"
    for row in matrix.rows:
        cells = (
            _code(row.id),
            _code(row.measure),
            _code(row.objective),
            _WINDOWS[row.window],
            _probe(row),
            _cell(row.owner),
            _cell(row.source),
        )
        yield f"| {' | '.join(cells)} |"
    yield ""
    yield "What each measure is:"
    yield ""
    for measure in dict.fromkeys(row.measure for row in matrix.rows):
        yield f"- `{measure}`: {_MEANS[measure]}."
    yield ""
    yield (
        "A row whose probe did not run is refused, and a refused row is no pass. So many missions in flight means 95 % of them on "
        "average over all of the row's window, weighted by time, and all of them at once at some time. `<` is strict. Judge a run "
        "again:"
    )
    yield ""
    yield "```"
    yield "drillmaster gate matrix RUN --policy drill-matrix.yaml"
    yield "```"


def _sentence(matrix: DrillMatrix, results: Mapping[str, Sequence[Result]]) -> str:
    last = {row.id: told[-1] for row in matrix.rows if (told := results.get(row.id))}
    if not last:
        return "No drill has been judged by this matrix yet."
    counts = {status: sum(one.status == status for one in last.values()) for status in _MARKS}
    missing = len(matrix.rows) - len(last)
    parts = [
        f"{n} {word}"
        for word, n in (("pass", counts["pass"]), ("fail", counts["fail"]), ("refused", counts["refused"]))
        if n
    ]
    if counts["unjudged"] or missing:
        parts.append(f"{counts['unjudged'] + missing} not judged")
    newest = max(last.values(), key=lambda one: one.ended_at)
    ready = all(one.status == "pass" for one in last.values()) and not missing
    answer = "Every promise held" if ready else "Not every promise held"
    return f"{answer} in the last drill ({newest.ended_at[:10]}, `{_cell(newest.run)}`{_stamped(newest)}): {', '.join(parts)}."


def _last(row: Row, told: Sequence[Result]) -> str:
    if not told:
        return "never judged"
    one = told[-1]
    return f"{_MARKS[one.status]}{_valued(row, one)} on {one.ended_at[:10]}{_stamped(one)}"


def _stamped(one: Result) -> str:
    return f", {_cell(', '.join(one.stamps))}" if one.stamps else ""


def _trend(row: Row, told: Sequence[Result]) -> str:
    if not told:
        return ""
    letters = "".join(_LETTERS[one.status] for one in told[-8:])
    values = [one.value for one in told[-8:] if one.value is not None]
    moved = ""
    if len(values) > 1 and values[0] != values[-1]:
        better = (values[-1] < values[0]) == (row.asks.unit == "s")
        moved = f", {'better' if better else 'worse'} than {_figure(row, values[0])}"
    return f"`{letters}`{moved}"


def _valued(row: Row, one: Result) -> str:
    if one.value is None:
        return ""
    return f" at {'at least ' if one.at_least else ''}{_figure(row, one.value)}"


def _figure(row: Row, value: float) -> str:
    return f"{value:.4g} s" if row.asks.unit == "s" else f"{int(value * 100_000 + 1e-9) / 1_000:g} %"


def _probe(row: Row) -> str:
    match row.probe:
        case LoadProbe(in_flight=n):
            text = f"{n} missions in flight"
        case ChaosProbe(flags=flags, in_flight=n):
            text = f"flags {', '.join(map(_code, flags))}" + (
                "" if n is msgspec.UNSET else f" under {n} missions in flight"
            )
        case TranscriptsProbe(sample=n):
            text = f"every transcript, {n} drawn for people"
        case KillProbe(capability=name):
            text = f"kill {_code(name)}"
    if row.alert is not msgspec.UNSET:
        text += f"; alert {_code(row.alert.rule)}, {_cell(row.alert.least)} or worse"
    for word in (row.entry, row.flow, row.tool):
        text += "" if word is msgspec.UNSET else f"; {_cell(str(word))} alone"
    return text


def _cell(text: str) -> str:
    """Text for a cell of a table: nothing in it is Markdown or HTML."""
    plain = " ".join(text.split())
    return re.sub(r"([\\`*_{}\[\]<>#|&])", r"\\\1", plain)


def _code(text: str) -> str:
    plain = " ".join(text.split()).replace("`", "'").replace("|", "/")
    return f"`{plain}`"
