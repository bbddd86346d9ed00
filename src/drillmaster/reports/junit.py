"""JUnit: a verdict as a test report, one test case a check, for the page on which a CI shows its tests.

1. A judgement that failed is a `failure`; what was refused is an `error`, since nothing could be said; only a pass is green.
2. A verdict that is no pass has a case that is none: without any check there is one that says so.
3. Names are the checks' ids, which are stable from run to run; the sentence of each stands in its message and output.
4. Text that XML 1.0 cannot hold is shown as an escape.
"""

import re
from html import escape

from drillmaster.reports import limit, measure, one_line
from drillmaster.reports.text import check_line, last_line
from drillmaster.verdict import Check, Verdict

__all__ = ["render"]

# What XML 1.0 has no place for, escaped or not; one_line has made all below U+0020 visible before.
_NO_XML = re.compile("[\ufffe\uffff]")


def render(verdict: Verdict) -> str:
    """Write the document; ends with a newline."""
    failures = sum(check.status == "fail" for check in verdict.checks)
    errors = sum(check.status == "refused" for check in verdict.checks) or int(
        verdict.status == "refused" and not verdict.checks
    )
    stamps = f" [{', '.join(verdict.stamps)}]" if verdict.stamps else ""
    total = max(1, len(verdict.checks))
    name = _attribute(f"drillmaster {verdict.gate}{stamps}")
    at = f" timestamp={_attribute(verdict.now.removesuffix('Z'))}" if verdict.now else ""
    out = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuites name="drillmaster" tests="{total}" failures="{failures}" errors="{errors}" time="0">',
        f'<testsuite name={name} tests="{total}" failures="{failures}" errors="{errors}" skipped="0" time="0"{at}>',
        "<properties>",
        *(
            f"<property name={_attribute(key)} value={_attribute(value)}/>"
            for key, value in (
                ("subject", verdict.subject),
                ("verdict", verdict.status),
                ("stamps", ", ".join(verdict.stamps)),
                ("evidence", verdict.evidence_digest),
                ("policy", verdict.policy_digest),
                ("version", verdict.version),
            )
            if value
        ),
        "</properties>",
    ]
    for check in verdict.checks:
        out += _case(verdict, check)
    if not verdict.checks:
        out += [
            f'<testcase classname={_attribute(f"drillmaster.{verdict.gate}")} name="anything" time="0">',
            '<error message="nothing was looked at" type="refused">nothing was looked at</error>',
            "</testcase>",
        ]
    out.append(
        f"<system-out>{_text(chr(10).join([*map(one_line, verdict.headline), last_line(verdict)]))}</system-out>"
    )
    return "\n".join([*out, "</testsuite>", "</testsuites>"]) + "\n"


def _case(verdict: Verdict, check: Check) -> list[str]:
    begin = (
        f"<testcase classname={_attribute(f'drillmaster.{verdict.gate}.{check.role}')} name={_attribute(check.id)}"
        ' time="0"'
    )
    if check.status == "pass":
        return [f"{begin}><system-out>{_text(check_line(check))}</system-out></testcase>"]
    tag = "failure" if check.status == "fail" else "error"
    said = [
        check_line(check),
        f"observed: {measure(check.observed, check.unit)}" if check.observed is not None else "",
        f"limit: {limit(check.limit, check.unit)}" if check.limit is not None else "",
        f"to mend it: {one_line(check.remedy)}" if check.remedy else "",
        *(f"see {one_line(cite.file)}:{cite.line}" for cite in check.cites[:20]),
    ]
    lines = "\n".join(line for line in said if line)
    return [
        f"{begin}>",
        f"<{tag} message={_attribute(check_line(check))} type={_attribute(check.status)}>{_text(lines)}</{tag}>",
        "</testcase>",
    ]


def _attribute(text: str) -> str:
    return f'"{escape(_clean(one_line(text)))}"'


def _text(text: str) -> str:
    return escape(_clean(text), quote=False)


def _clean(text: str) -> str:
    return _NO_XML.sub(lambda m: f"\\u{ord(m[0]):04x}", text)
