"""What `drillmaster history metrics`, `serve-metrics` and `dashboard` do: rows of a history for Prometheus and Grafana."""

import threading
import time
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from drillmaster.history import Entry

__all__ = ["DASHBOARD", "dashboard_files", "page", "serve"]

DASHBOARD = ("dashboard.json", "provider.yaml")
_READ_WITHIN_S = 10.0
_AGAIN_S = 5.0
"""Asked more often than that, the page of before is given: a scrape must not read a database at will."""


def page(entries: "Sequence[Entry]") -> str:
    """Write the page of rows."""
    from drillmaster.reports._drills import DrillRow, render

    return render(
        DrillRow(
            drill=one.drill,
            service=one.name,
            status=one.status,
            ended_at=one.ended_at,
            metrics=one.metrics,
            at_least=one.at_least,
            proved=one.proved,
        )
        for one in entries
    )


def dashboard_files() -> dict[str, str]:
    """The dashboard and its provider, by file name."""
    folder = resources.files("drillmaster.kits").joinpath("friday").joinpath("grafana")
    return {name: folder.joinpath(name).read_text("utf-8") for name in DASHBOARD}


def serve(host: str, port: int, fresh: Callable[[], str], *, ready: Callable[[str], None]) -> None:
    """Answer GET /metrics on loopback until a signal comes.

    Where the history cannot be read a scrape fails (503), and the next asks again. Raises OSError where the address cannot be had.
    """
    from drillmaster.errors import Problem
    from drillmaster.reports._drills import CONTENT_TYPE

    kept: list[Any] = [0.0, b""]
    one_at_a_time = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        timeout = _READ_WITHIN_S
        server_version = "drillmaster"
        sys_version = ""

        def do_GET(self) -> None:
            if self.path.partition("?")[0] != "/metrics":
                self._say(404, b"GET /metrics\n", "text/plain")
                return
            with one_at_a_time:
                try:
                    if not kept[1] or time.monotonic() - kept[0] > _AGAIN_S:
                        kept[:] = [time.monotonic(), fresh().encode()]
                    status, body = 200, kept[1]
                except Problem as problem:
                    kept[:] = [0.0, b""]
                    status, body = 503, f"{problem.found}\n".encode("utf-8", "backslashreplace")
            self._say(status, body, CONTENT_TYPE)

        def _say(self, status: int, body: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing: a scrape every 15 s is no news."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 16

    with Server((host, port), Handler) as server:
        ready(f"http://{host}:{server.server_port}/metrics")
        server.serve_forever(poll_interval=0.2)
