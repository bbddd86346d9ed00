"""SARIF 2.1.0: what did not pass, for the page on which a code host shows alerts.

1. One rule a check, each id once; one result for each place that a check which did not pass cites, or one without.
2. A place is a relative address that is never empty, with a line from 1: uploads are refused for less. A check that cites
   no file stands at a place of the gate's own.
3. `partialFingerprints` are of gate, check and place, so that an alert stays the same one from run to run;
   `automationDetails` keep two gates apart.
4. A refused verdict is an execution that did not succeed. Nothing is ever `none` or a note.
"""

import hashlib
from urllib.parse import quote

import msgspec

from drillmaster.reports import clip, encodable, one_line
from drillmaster.reports.text import check_line
from drillmaster.verdict import Check, Cite, Verdict

__all__ = ["render"]

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_CITES = 100
_TEXT_CHARS = 1_000


def render(verdict: Verdict) -> str:
    """Write the document; ends with a newline."""
    ids = list(dict.fromkeys(check.id for check in verdict.checks))
    titles = {check.id: check.title for check in reversed(verdict.checks)}
    missed = [check for check in verdict.checks if check.status != "pass"]
    results = [
        _result(check, cite, ids.index(check.id), verdict.gate)
        for check in missed
        for cite in check.cites[:_CITES] or (None,)
    ]
    run = {
        "tool": {
            "driver": {
                "name": "drillmaster",
                "version": verdict.version or "0",
                "rules": [
                    {
                        "id": one,
                        "shortDescription": {"text": _text(titles[one]) or one},
                        "name": f"{verdict.gate}/{one}",
                    }
                    for one in ids
                ],
            }
        },
        "automationDetails": {"id": f"drillmaster/{verdict.gate}/"},
        "columnKind": "unicodeCodePoints",
        "invocations": [
            {
                "executionSuccessful": verdict.status != "refused",
                "exitCode": int(verdict.exit),
                "properties": {"stamps": list(verdict.stamps), "counts": verdict.counts, "status": verdict.status},
            }
        ],
        "results": results,
    }
    document = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
    return msgspec.json.format(msgspec.json.encode(encodable(document)), indent=2).decode() + "\n"


def _result(check: Check, cite: Cite | None, index: int, gate: str) -> dict[str, object]:
    address = _address(cite.file) if cite is not None else ""
    address = address or f"drillmaster/{gate}"
    line = cite.line if cite is not None and cite.line > 0 else 1
    mend = f" To mend it: {check.remedy}" if check.remedy else ""
    key = "\0".join((gate, check.id, address, str(line)))
    return {
        "ruleId": check.id,
        "ruleIndex": index,
        "level": "error",
        "message": {"text": _text(f"{check_line(check)}.{mend}")},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": address},
                    "region": {"startLine": line},
                }
            }
        ],
        "partialFingerprints": {"drillmaster/v1": hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()},
    }


def _address(file: str) -> str:
    """Write a path as a relative address: no root, no step upwards, nothing that an address cannot hold."""
    parts = [part for part in file.split("/") if part not in ("", ".", "..")]
    return "/".join(quote(part.encode("utf-8", "surrogateescape"), safe="") for part in parts)


def _text(text: str) -> str:
    return clip(one_line(text), _TEXT_CHARS)
