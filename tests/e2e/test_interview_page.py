"""An interview's page in a real browser: it fits a phone and a few sheets of paper, and asks nobody for anything."""

import http.server
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from drillmaster import reports
from tests.e2e.test_page import _chromium
from tests.reports import interviews

pytestmark = [pytest.mark.e2e, pytest.mark.needs("chromium"), pytest.mark.timeout(180)]

OUTER = """<!doctype html><body><iframe src="/page" style="width:{width}px;height:800px;border:0"
onload="document.body.dataset.wide = this.contentDocument.documentElement.scrollWidth"></iframe>"""


@contextmanager
def _served(pages: dict[str, bytes]) -> Iterator[tuple[str, list[str]]]:
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            body = pages.get(self.path)
            self.send_response(404 if body is None else 200)
            self.send_header("content-type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        server.server_close()


def _page(name: str) -> bytes:
    text: str = reports.form("interview_html").render(*interviews.frozen(name))
    return text.encode()


@pytest.mark.parametrize("name", ["pass", "fail", "refused", "hostile"])
def test_it_prints_on_four_sheets_at_most(tmp_path: Path, name: str) -> None:
    page, paper = tmp_path / "report.html", tmp_path / "report.pdf"
    page.write_bytes(_page(name))
    _chromium(tmp_path, "--no-pdf-header-footer", f"--print-to-pdf={paper}", page.as_uri())
    assert 1 <= len(re.findall(rb"/Type /Page\b", paper.read_bytes())) <= 4


@pytest.mark.parametrize("width", [1200, 390, 320])
def test_nothing_sticks_out_however_narrow_the_screen_and_nothing_is_loaded(tmp_path: Path, width: int) -> None:
    import shutil
    import subprocess

    outer = OUTER.format(width=width).encode()
    with _served({"/": outer, "/page": _page("hostile")}) as (address, asked):
        program = shutil.which("chromium")
        assert program is not None
        quiet = ("--disable-background-networking", "--disable-features=NetworkTimeServiceQuerying")
        shown = subprocess.run(
            [program, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}", *quiet,
             f"--host-resolver-rules=MAP * {address.removeprefix('http://')}", "--virtual-time-budget=4000", "--dump-dom", address],
            capture_output=True, text=True, timeout=90, check=True,
        ).stdout  # fmt: skip
    found = re.search(r'data-wide="(\d+)"', shown)
    assert found is not None, shown[:300]
    assert int(found[1]) <= width
    assert set(asked) <= {"/", "/page", "/favicon.ico"}
