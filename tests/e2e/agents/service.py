"""What the three Python agents have in common, and what no drill is about: a small web service and its timeline."""

import json
import os
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

HABIT = os.environ.get("HABIT", "")
APOLOGY = "We are looking into it and will write to you today."


def mark(event, **fields):
    if os.environ.get("MARKS"):
        with open(os.environ["DRILL_LOG"], "a", encoding="utf-8") as log:
            log.write(json.dumps({"t": datetime.now(UTC).isoformat(), "event": event, **fields}) + "\n")


def serve(answer):
    """Answer users with `answer(prompt, request_id, headers)`; what it raises is a 500."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            trace = self.headers.get("traceparent") if os.environ.get("TRACE") else None
            request_id = self.headers.get("x-drill-request", "none")
            mark("user_request", id=request_id, phase="start")
            try:
                prompt = parse_qs(urlsplit(self.path).query)["q"][0]
                status, text = 200, answer(prompt, request_id, {"traceparent": trace} if trace else None)
            except Exception as error:
                mark("unhandled_exception", id=request_id, kind=type(error).__name__)
                status, text = 500, ""
            mark("user_request", id=request_id, phase="end", status=status)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *args):
            pass

    ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
