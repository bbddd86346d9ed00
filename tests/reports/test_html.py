import itertools
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser

import msgspec
import pytest

from drillmaster.reports._view import OUTCOMES, RequestView, RunView
from drillmaster.reports.html import KINDS, MAX_BYTES, UNPROVEN, render, sample
from drillmaster.reports.json import document, parse
from drillmaster.verdict import Check, Cite, Finding, Verdict
from tests.reports import cases

VOID = {"meta", "link", "br", "hr", "img", "input"}
OPTIONAL = {"tr", "td", "th", "thead", "tbody", "li", "p", "dt", "dd"}  # whose end tags HTML lets one leave out


class Page(HTMLParser):
    """A page as a browser would read it: tags with their attributes, ids, texts by tag."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.scripts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        while self.open[-1] != tag:
            assert self.open.pop() in OPTIONAL, f"</{tag}> closes something else"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts.append(data)
        elif self.open and self.open[-1] != "style":
            self.text += data

    def of(self, tag: str) -> Iterator[dict[str, str | None]]:
        return (attrs for name, attrs in self.tags if name == tag)


def test_what_never_came_is_said_so_on_its_tile() -> None:
    verdict, view = cases.frozen("fail")
    assert '<span class="value s-fail">never (900 s)</span><span class="of">limit 60 s' in render(verdict, view)


def _page(name: str) -> Page:
    return Page(render(*cases.frozen(name)))


def _many(view: RunView, n: int) -> RunView:
    requests = tuple(
        RequestView(
            due_s=i * 1800 / n,
            latency_s=0.5 + (i % 7) / 10,
            outcome="http_5xx" if i == n // 2 else ("ok_fallback" if 600 <= i * 1800 / n < 1500 else "ok_primary"),
            phase="fault" if 600 <= i * 1800 / n < 1500 else "baseline",
        )
        for i in range(n)
    )
    return msgspec.structs.replace(view, requests=requests)


@pytest.mark.parametrize("name", cases.CASES)
def test_nothing_is_loaded_from_anywhere(name: str) -> None:
    page = _page(name)
    for tag, attrs in page.tags:
        assert tag not in {
            "link",
            "img",
            "iframe",
            "object",
            "embed",
            "base",
            "form",
            "audio",
            "video",
            "a",
            "image",
            "use",
        }
        assert not {"src", "href", "srcset", "action", "data", "xlink:href", "background"} & set(attrs)
        assert not any(key.startswith("on") for key in attrs)
    assert list(page.of("script")) == [{"type": "application/json", "id": "verdict"}]
    style = re.findall(r"<style>.*?</style>", render(*cases.frozen(name)), re.DOTALL)
    assert len(style) == 1
    assert "url(" not in style[0] and "@import" not in style[0]
    policies = [attrs["content"] for attrs in page.of("meta") if attrs.get("http-equiv") == "Content-Security-Policy"]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'"]


def test_names_from_the_evidence_are_text_and_nothing_else() -> None:
    honest, hostile = _page("fail"), _page("hostile")
    assert [tag for tag, _ in hostile.tags if tag in ("script", "textarea", "img")] == ["script"]
    assert {tag for tag, _ in hostile.tags} == {tag for tag, _ in honest.tags}
    assert "<script>alert(1)</script>" in hostile.text
    assert "\x1b" not in hostile.text and "\u202e" not in hostile.text


@pytest.mark.parametrize("name", cases.CASES)
def test_tags_are_closed_in_order_and_ids_are_their_own(name: str) -> None:
    page = _page(name)
    assert page.open == []
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    for _, attrs in page.tags:
        for wanted in (attrs.get("aria-labelledby") or "").split():
            assert wanted in ids


@pytest.mark.parametrize("name", cases.CASES)
def test_who_cannot_see_it_can_read_it(name: str) -> None:
    page = _page(name)
    tags = [tag for tag, _ in page.tags]
    assert all(tags.count(landmark) == 1 for landmark in ("header", "main", "footer", "h1"))
    assert [attrs.get("lang") for attrs in page.of("html")] == ["en"]
    for attrs in page.of("svg"):
        assert (attrs.get("role") == "img" and attrs.get("aria-labelledby")) or attrs.get("aria-hidden") == "true"
    for attrs in page.of("section"):
        assert attrs.get("aria-labelledby") or attrs.get("aria-label")
    for attrs in page.of("th"):
        assert attrs.get("scope") in ("col", "row", "rowgroup")
    # by phase, every request, load by stretch, retries by phase, every check
    assert tags.count("caption") == tags.count("table") == 5
    levels = [int(tag[1]) for tag in tags if re.fullmatch("h[1-6]", tag)]
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))


def test_every_request_has_a_mark_and_a_row() -> None:
    _, view = cases.frozen("fail")
    text = render(*cases.frozen("fail"))
    chart = text[text.index('class="chart"') : text.index("</svg>")]
    assert sum(
        path.count("M") for path in re.findall(r'<path d="(M[^"]*)" style="fill:(?:var|none;stroke:var)\(--mark', chart)
    ) == len(view.requests)
    table = text[text.index("<summary>The 360 requests") :]
    assert len(re.findall(r"<tr><td>[\d.]+<td>", table)) == len(view.requests)


def test_a_request_that_never_ended_is_in_the_picture() -> None:
    verdict, view = cases.frozen("pass")
    lost = RequestView(due_s=700.0, latency_s=None, outcome="never_ended", phase="fault")
    text = render(verdict, msgspec.structs.replace(view, requests=(*view.requests, lost)))
    assert ">no end</text>" in text
    assert "never ended (1)" in text
    assert "<tr><td>700.0<td>none<td>never ended" in text


@pytest.mark.parametrize("name", cases.CASES)
def test_every_check_is_there_with_its_status_and_the_unproven_too(name: str) -> None:
    verdict, _ = cases.frozen(name)
    text = " ".join(_page(name).text.split())
    for check in verdict.checks:
        assert check.status.upper() in text
        assert " ".join(check.id.split()) and check.title[:30] in text
    for line in UNPROVEN:
        assert line in text
    for stamp in verdict.stamps:
        assert stamp in text


@pytest.mark.parametrize("name", cases.CASES)
def test_the_machine_form_inside_is_the_verdict(name: str) -> None:
    verdict, _ = cases.frozen(name)
    (script,) = _page(name).scripts
    assert json.loads(script) == document(verdict)
    assert parse(script.encode(), place="page") == verdict


def test_without_a_run_there_is_still_a_page() -> None:
    verdict, _ = cases.frozen("pass")
    bare = msgspec.structs.replace(verdict, stamps=("UNSEALED", "UNPROVEN"), subject="drill.jsonl")
    page = Page(render(bare))
    assert "drill.jsonl" in page.text and "UNPROVEN" in page.text
    assert not list(page.of("figure"))


def test_no_check_at_all_is_a_page_that_says_so() -> None:
    verdict = Verdict(gate="eviction", status="refused", checks=())
    assert "Nothing was looked at, so nothing was proven." in Page(render(verdict)).text


@pytest.mark.parametrize("n", [0, 1, 2_000, 2_001, 100_000])
def test_it_stays_under_200_kb_however_much_there_is(n: int) -> None:
    verdict, view = cases.frozen("fail")
    cites = tuple(Cite("events/traffic.jsonl", line) for line in range(5_000))
    checks = tuple(msgspec.structs.replace(check, cites=cites) for check in verdict.checks)
    findings = (Finding(id="f", cause="c", next="n", cites=cites),)
    large = msgspec.structs.replace(verdict, checks=checks, findings=findings)
    text = render(large, _many(view, n) if n else msgspec.structs.replace(view, requests=(), phases=()))
    assert len(text.encode()) <= MAX_BYTES == 200_000
    (script,) = Page(text).scripts
    assert json.loads(script)["status"] == "fail"
    assert "cited lines a check" in text


def test_2000_requests_are_all_shown() -> None:
    verdict, view = cases.frozen("pass")
    text = render(verdict, _many(view, 2_000))
    assert "The 2000 requests behind this picture" in text
    assert "are drawn: every" not in text


def test_a_sample_says_that_it_is_one_and_of_how_many() -> None:
    verdict, view = cases.frozen("pass")
    text = " ".join(Page(render(verdict, _many(view, 20_000))).text.split())
    assert re.search(r"200\d of 20000 requests are drawn: every 10th of each outcome in each phase", text)
    assert "All counts are of all 20000" in text
    assert "HTTP 5xx (1)" in text


def test_a_sample_keeps_what_is_rare_and_the_ends_of_what_is_not() -> None:
    _, view = cases.frozen("pass")
    requests = _many(view, 20_000).requests
    shown, every = sample(requests, 2_000)
    assert every == 10
    assert [r for r in shown if r.outcome == "http_5xx"] == [r for r in requests if r.outcome == "http_5xx"]
    assert shown[0] == requests[0] and shown[-1] == requests[-1]
    assert [r.due_s for r in shown] == sorted(r.due_s for r in shown)
    fallbacks = sum(r.outcome == "ok_fallback" for r in shown)
    assert fallbacks == pytest.approx(sum(r.outcome == "ok_fallback" for r in requests) / every, abs=2)


def test_every_outcome_has_a_name_and_a_look_of_its_own() -> None:
    assert set(KINDS) == set(OUTCOMES)
    assert len({kind.shape for kind in KINDS.values()} | {0}) >= 12  # two squares differ by tone
    assert len({(kind.tone, kind.shape) for kind in KINDS.values()}) == len(OUTCOMES)
    assert len({kind.label for kind in KINDS.values()}) == len(OUTCOMES)


def _palettes() -> list[dict[str, str]]:
    style = render(Verdict(gate="g", status="refused", checks=()))
    blocks = re.findall(r":root\{(.*?)\}", style, re.DOTALL)
    return [dict(re.findall(r"--([a-z-]+):(#[0-9a-f]{3,6})", block)) for block in blocks]


def _luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * c for c in colour[1:])
    parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one: str, other: str) -> float:
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_the_measure_of_contrast_is_the_known_one() -> None:
    assert _contrast("#000", "#fff") == pytest.approx(21)
    assert _contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


def test_contrast_holds_by_day_by_night_and_on_paper() -> None:
    palettes = _palettes()
    assert len(palettes) == 3
    for palette in palettes:
        for ground in ("paper", "card"):
            for text in ("ink", "quiet", "pass", "fail", "refused"):
                assert _contrast(palette[text], palette[ground]) >= 4.5, (text, ground, palette)
        for status in ("pass", "fail", "refused"):
            assert _contrast(palette[status], palette[f"{status}-bg"]) >= 4.5
            assert _contrast(palette["ink"], palette[f"{status}-bg"]) >= 4.5
            assert _contrast(palette["quiet"], palette[f"{status}-bg"]) >= 4.5
        for tone in ("good", "other", "unsure", "soft", "bad", "worst"):
            for ground in ("paper", "band"):
                assert _contrast(palette[f"mark-{tone}"], palette[ground]) >= 3, (tone, ground, palette)


def test_a_check_that_was_refused_stands_at_the_top_with_its_remedy() -> None:
    check = Check(id="sealed", role="admission", status="refused", title="sealed", remedy="drillmaster seal runs/x")
    text = render(Verdict(gate="eviction", status="refused", checks=(check,)))
    top = Page(text[: text.index("</header>")] + "</header></body></html>").text
    assert "drillmaster seal runs/x" in top
    assert "1 of its preconditions did not hold" in top


@pytest.mark.parametrize("name", cases.PAGES)
def test_golden_pages(name: str) -> None:
    assert render(*cases.frozen(name)) == (cases.GOLDEN / name / "report.html").read_text(encoding="utf-8")
