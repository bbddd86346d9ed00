"""Issues: one Markdown file for each FAIL line, ready to be filed: what was seen, the limit, where, what next, by whom.

A refused run has none: what its drill did not prove is nobody's to mend. The name of a file is the run and the check, so
the same verdict gives the same files with the same bytes.
"""

import hashlib
import re

from drillmaster.reports import clip, code_span, limit, markdown_line, measure
from drillmaster.reports._view import RunView
from drillmaster.reports.card import owner
from drillmaster.reports.text import check_line
from drillmaster.verdict import Check, Verdict

__all__ = ["render"]

_CITES = 20


def render(verdict: Verdict, view: RunView) -> dict[str, str]:
    """Write the issues, by file name; empty where nothing failed, and where the run was refused, which judges nothing."""
    if verdict.status == "refused":
        return {}
    failed = [check for check in verdict.checks if check.status == "fail"]
    return {f"{_slug(view.run)}-{_slug(check.id)}.md": _issue(check, verdict, view) for check in failed}


def _slug(text: str) -> str:
    """Keep what is safe in a file name on any system; where that changes the text, a digest keeps two apart."""
    kept = re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-")[:80]
    return (
        kept
        if kept == text and text
        else f"{kept or 'unnamed'}-{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:6]}"
    )


def _issue(check: Check, verdict: Verdict, view: RunView) -> str:
    who = owner(check.id, view.owners)
    stamps = f" [{', '.join(verdict.stamps)}]" if verdict.stamps else ""
    out = [
        f"# {markdown_line(clip(view.service, 60))}: {markdown_line(clip(check.title, 120))}{markdown_line(stamps)}",
        "",
        f"- Owner: {markdown_line(clip(who, 60)) if who else 'OPEN'}",
        f"- Run: {code_span(view.run)}, {markdown_line(clip(view.drill, 60))} drill, {markdown_line(clip(view.date, 20))}",
        f"- Fault: {code_span(clip('; '.join(window.words for window in view.windows) or view.mode, 400))}",
        f"- Check: {code_span(check.id)}",
        f"- Observed: {markdown_line(measure(check.observed, check.unit)) or 'see the line below'}",
        f"- Limit: {markdown_line(limit(check.limit, check.unit)) or 'none: it must not happen'}",
        f"- Budget: {markdown_line(view.budget)}",
        "",
        "The gate said:",
        "",
        f"    {check_line(check)}",
        "",
        "## Where to look",
        "",
    ]
    cites = [f"{cite.file}:{cite.line}" if cite.line else cite.file for cite in check.cites]
    out += [f"- {code_span(cite)}" for cite in cites[:_CITES]] or [
        "- the check cites no single line; see `verdict.json`"
    ]
    if len(cites) > _CITES:
        out.append(f"- and {len(cites) - _CITES} lines more, in `verdict.json`")
    out += ["", "## What to do next", ""]
    own = [finding for finding in verdict.findings if set(finding.cites) & set(check.cites)] or list(verdict.findings)
    out += [f"- {markdown_line(finding.next)}. It seems that {markdown_line(finding.cause)}." for finding in own]
    if not own:
        out.append("- No known cause fits. Read the lines above in the sealed run, beside the worker's own log.")
    out += ["", f"Then drill again, and judge: {code_span(view.gate_command)}"]
    out += ["", f"Evidence {code_span(verdict.evidence_digest)}, policy {code_span(verdict.policy_digest)}."]
    return "\n".join(out) + "\n"
