"""Slack: a notice as the body of an incoming webhook, in Block Kit.

A header of plain text (150 characters at most), one section a check that did not pass, and the links as a line of context. Texts
are `plain_text`, in which Slack reads no mention and no markup; only the line of links is `mrkdwn`, and its addresses were checked.
At most 50 blocks a message, 3,000 characters a text, 10 elements a context: docs.slack.dev/reference/block-kit/blocks.
"""

from typing import Any

from drillmaster.notices import MOST_ROWS, Notice, rest_text, row_text
from drillmaster.reports import clip

__all__ = ["HEADER_CHARS", "MOST_BLOCKS", "TEXT_CHARS", "body"]

HEADER_CHARS = 150
TEXT_CHARS = 3_000
MOST_BLOCKS = 50
_MARKS = {"pass": "✅", "fail": "❌", "refused": "⛔", "aborted": "⏹"}


def body(notice: Notice) -> dict[str, Any]:
    """Write the JSON body. `text` is what notifications and screen readers show."""
    heading = f"{_MARKS[notice.status]} {notice.heading}"
    blocks: list[dict[str, Any]] = [{"type": "header", "text": _plain(heading, HEADER_CHARS)}]
    if notice.why:
        blocks.append({"type": "section", "text": _plain(notice.why, TEXT_CHARS)})
    blocks += [{"type": "section", "text": _plain(row_text(one), TEXT_CHARS)} for one in notice.missed[:MOST_ROWS]]
    facts = [f"run {notice.run}", f"{notice.passed} checks passed, {len(notice.missed)} did not", f"at {notice.at}"]
    rest = rest_text(notice.missed, MOST_ROWS)
    elements = [_plain(one, TEXT_CHARS) for one in (*facts, *([rest] if rest else []))]
    links = [f"<{url}|{name}>" for url, name in ((notice.link, "the run"), (notice.ndjson, "its NDJSON")) if url]
    if links:
        elements.append({"type": "mrkdwn", "text": clip(" · ".join(links), TEXT_CHARS)})
    blocks.append({"type": "context", "elements": elements})
    return {"text": _escaped(clip(heading, TEXT_CHARS)), "blocks": blocks, "unfurl_links": False, "unfurl_media": False}


def _plain(text: str, most: int) -> dict[str, Any]:
    return {"type": "plain_text", "text": clip(text, most), "emoji": False}


def _escaped(text: str) -> str:
    """Take its meaning from what Slack would read in a message's own text: `<!channel>` calls a whole channel."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
