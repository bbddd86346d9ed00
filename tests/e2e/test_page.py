"""The page in a real browser: it asks nobody for anything, and it fits on two sheets of paper."""

import http.server
import re
import shutil
import subprocess
import threading
from pathlib import Path

import msgspec
import pytest

from tests.reports import cases
from tests.reports.test_retries import busy

pytestmark = [pytest.mark.e2e, pytest.mark.needs("chromium"), pytest.mark.timeout(180)]


def _chromium(tmp_path: Path, *arguments: str) -> None:
    program = shutil.which("chromium")
    assert program is not None
    subprocess.run(
        [program, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}", *arguments],
        capture_output=True,
        timeout=90,
        check=True,
    )


def _page(tmp_path: Path, name: str) -> Path:
    from drillmaster.reports.html import render

    path = tmp_path / "report.html"
    path.write_text(render(*cases.frozen(name)), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["pass", "fail", "refused", "rehearsal"])
def test_it_prints_on_two_sheets(tmp_path: Path, name: str) -> None:
    paper = tmp_path / "report.pdf"
    _chromium(tmp_path, "--no-pdf-header-footer", f"--print-to-pdf={paper}", _page(tmp_path, name).as_uri())
    assert 1 <= len(re.findall(rb"/Type /Page\b", paper.read_bytes())) <= 2


def test_it_still_does_when_much_was_sent_again(tmp_path: Path) -> None:
    from drillmaster.reports.html import render

    verdict, view = cases.frozen("fail")
    page, paper = tmp_path / "report.html", tmp_path / "report.pdf"
    page.write_text(render(verdict, msgspec.structs.replace(view, retries=busy())), encoding="utf-8")
    _chromium(tmp_path, "--no-pdf-header-footer", f"--print-to-pdf={paper}", page.as_uri())
    assert 1 <= len(re.findall(rb"/Type /Page\b", paper.read_bytes())) <= 2


def test_it_asks_the_network_for_nothing_and_runs_no_script(tmp_path: Path) -> None:
    """Serve the page ourselves, beside names that an attack would have fetched, and look at what is asked for."""
    page = _page(tmp_path, "hostile").read_bytes()
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200 if self.path == "/" else 404)
            self.send_header("content-type", "text/html; charset=utf-8")
            self.end_headers()
            if self.path == "/":
                self.wfile.write(page)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        picture = tmp_path / "picture.png"
        address = f"http://127.0.0.1:{server.server_address[1]}/"
        # All names resolve to our own server, so that a request to anywhere would be seen here.
        rules = f"--host-resolver-rules=MAP * 127.0.0.1:{server.server_address[1]}"
        # The browser's own errands (updates, the time) would be seen too.
        quiet = ("--disable-background-networking", "--disable-features=NetworkTimeServiceQuerying")
        _chromium(tmp_path, rules, *quiet, f"--screenshot={picture}", "--window-size=1200,2000", address)
    finally:
        server.shutdown()
        server.server_close()
    assert picture.stat().st_size > 20_000  # something was drawn
    assert [path for path in asked if path not in ("/", "/favicon.ico")] == []
