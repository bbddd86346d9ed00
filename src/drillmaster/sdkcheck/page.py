"""The table as one HTML page, in the reports' style: no script, nothing loaded, every cell leads to its wire log."""

import os
from importlib import resources
from urllib.parse import quote

import jinja2
from markupsafe import Markup

from drillmaster.errors import one_line
from drillmaster.sdkcheck import Result, Table
from drillmaster.sdkcheck.table import asked_status, parts, shown, span, summary

__all__ = ["render"]

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="referrer" content="no-referrer">
<meta name="color-scheme" content="light dark">
<title>What SDKs do under each fault, {{ table.made_at[:10] }}</title>
<style>{{ style }}
main,header,footer{max-width:90rem}td{min-width:9rem;overflow-wrap:break-word}</style>
</head>
<body>
<header>
<p class="over">sdk-check · {{ table.made_at }} · drillmaster {{ table.drillmaster }} · Python {{ table.python }}</p>
<h1>What your SDKs do under each fault</h1>
<ul class="plain">
{% for line in lines %}
<li>{{ line }}</li>
{% endfor %}
</ul>
</header>
<main>
{% for part in parts %}
<h2>{{ part.title }}</h2>
<div class="scroll" tabindex="0">
<table>
<caption>What was raised / requests on the wire / seconds. The clients' time limit was {{ table.limit_s }} s.</caption>
<thead><tr><th scope="col">fault</th>{% for name in part.clients %}<th scope="col">{{ name }}</th>{% endfor %}</tr></thead>
<tbody>
{% for label, cells in part.rows %}
<tr><th scope="row">{{ label }}</th>
{% for cell in cells %}
<td>{% if cell %}
<a href="{{ link(cell) }}">{{ shown(cell) }}</a>
{% if engaged(cell) %}
<span class="note"><b class="{{ colour(cell) }}">{{ engaged(cell) }}</b> · worst {{ span(cell.worst_s) }}</span>
{% endif %}
{% endif %}</td>
{% endfor %}
</tr>
{% endfor %}
</tbody>
</table>
</div>
{% endfor %}
{% if table.not_run %}
<h2>Not run</h2>
<ul class="plain">
{% for entry in table.not_run %}
<li>{{ entry.client }}, {{ entry.label }}: {{ entry.why }}</li>
{% endfor %}
</ul>
{% endif %}
<h2>What this does not prove</h2>
<ul class="plain">
<li>That your fallback works: here one would have engaged if it stood in an except of the client's own error class.</li>
<li>Anything about TLS, HTTP/2, proxies on the way, or asynchronous variants of a client.</li>
</ul>
</main>
<footer>Each cell leads to the wire's events in {{ table.logs }}/, as long as that folder is there.</footer>
</body>
</html>
"""


def render(table: Table, beside: str = ".") -> str:
    """Write the page. `beside` is the folder it is kept in, for the links to the logs."""
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: one_line(value) if isinstance(value, str) and not isinstance(value, Markup) else value,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    logs = os.path.relpath(table.logs, beside)
    return environment.from_string(_PAGE).render(
        table=table,
        style=Markup(_style()),  # noqa: S704 # the reports' own style sheet, part of the package
        lines=[*summary(table), *asked_status(table)],
        parts=parts(table),
        link=lambda cell: quote(f"{logs}/{cell.log}/proxy.jsonl", errors="surrogateescape"),
        shown=shown,
        span=span,
        colour=lambda cell: {True: "s-pass", False: "s-fail", None: ""}[cell.fallback],
        engaged=_engaged,
    )


def _engaged(cell: Result) -> str:
    """Whether a fallback engaged, in words; empty for a cell that is no result."""
    if cell.outcome in ("not-met", "crashed"):
        return ""
    return {True: "fallback engages", False: "no fallback", None: "no fallback needed"}[cell.fallback]


def _style() -> str:
    page = resources.files("drillmaster.reports").joinpath("page.html.jinja").read_text("utf-8")
    return page.partition("<style>")[2].partition("</style>")[0]
