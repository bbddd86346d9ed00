"""Markdown: a verdict as one card for a pull request or a step summary.

1. The first line is a comment that a bot can find its card by; the next says the verdict and, where it is none to go on
   with, the ids of the checks that did not pass.
2. Then a table of all checks, those that did not pass first; then what to do about each.
3. A code host drops a summary of 1 MiB without a word: past MOST_BYTES rows are left out, and the card says how many.
"""

from drillmaster.reports import clip, code_span, limit, markdown_line, measure
from drillmaster.reports.text import last_line, where
from drillmaster.verdict import Check, Verdict

__all__ = ["MOST_BYTES", "render"]

MOST_BYTES = 900 * 1024
_ORDER = {"fail": 0, "refused": 1, "pass": 2}
_WORD = {"pass": "pass", "fail": "**FAIL**", "refused": "**REFUSED**"}
_TEXT_CHARS = 400


def render(verdict: Verdict) -> str:
    """Write the card; ends with a newline."""
    missed = [check for check in verdict.checks if check.status != "pass"]
    ids = ", ".join(code_span(clip(check.id, 80)) for check in missed[:20])
    more = f" and {len(missed) - 20} more" if len(missed) > 20 else ""
    stamps = f" · {markdown_line(', '.join(verdict.stamps))}" if verdict.stamps else ""
    head = [
        f"<!-- drillmaster {_plain(verdict.gate)} -->",
        f"**{verdict.status.upper()}** {code_span(verdict.gate)}{stamps}{f': {ids}{more}' if missed else ''}",
        "",
        *([markdown_line(clip(verdict.subject, _TEXT_CHARS)), ""] if verdict.subject else []),
        *(f"- {markdown_line(clip(line, _TEXT_CHARS))}" for line in verdict.headline),
        *([""] if verdict.headline else []),
        "| | check | observed | limit | |",
        "|---|---|---|---|---|",
    ]
    rows = [_row(check) for check in sorted(verdict.checks, key=lambda check: _ORDER[check.status])]
    mends = [f"- {code_span(clip(c.id, 80))}: {markdown_line(clip(c.remedy, _TEXT_CHARS))}" for c in missed if c.remedy]
    found = [f"- {markdown_line(clip(f'{f.cause} Next: {f.next}', _TEXT_CHARS))}" for f in verdict.findings]
    tail = [
        *(["", "### How to mend it", "", *mends] if mends else []),
        *(["", "### What most likely happened", "", *found] if found else []),
        "",
        *(
            [markdown_line("counted: " + ", ".join(f"{k} {n}" for k, n in sorted(verdict.counts.items()))), ""]
            if verdict.counts
            else []
        ),
        f"{markdown_line(last_line(verdict))}",
        "",
        f"evidence {code_span(verdict.evidence_digest or 'none')} · policy {code_span(verdict.policy_digest or 'none')} · "
        f"{markdown_line(verdict.now)} · drillmaster {markdown_line(verdict.version)}",
    ]
    return _fitted(head, rows, tail)


def _row(check: Check) -> str:
    cells = (
        _WORD[check.status],
        code_span(clip(check.id, 80)),
        markdown_line(clip(measure(check.observed, check.unit), 120)),
        markdown_line(clip(limit(check.limit, check.unit), 120)),
        markdown_line(
            clip(f"{check.title}{f': {check.why}' if check.why and check.status != 'pass' else ''}", _TEXT_CHARS)
        )
        + (f" ({markdown_line(where(check.cites))})" if check.cites and check.status != "pass" else ""),
    )
    # A pipe inside a code span ends a cell all the same.
    return "| " + " | ".join(cell if "\\|" in cell else cell.replace("|", "\\|") for cell in cells) + " |"


def _fitted(head: list[str], rows: list[str], tail: list[str]) -> str:
    room = MOST_BYTES - sum(len(line.encode()) + 1 for line in (*head, *tail)) - 200
    kept: list[str] = []
    for row in rows:
        room -= len(row.encode()) + 1
        if room < 0:
            break
        kept.append(row)
    left = len(rows) - len(kept)
    note = [f"| | | | | {left} more checks do not fit here; the JSON form has them all |"] if left else []
    text = "\n".join([*head, *kept, *note, *tail]) + "\n"
    return text if len(text.encode()) <= MOST_BYTES else "\n".join([*head[:2], "", *tail[-3:]]) + "\n"


def _plain(gate: str) -> str:
    return "".join(c for c in gate if c.isalnum() or c == "-")
