"""A support bot on plain `requests`. HABIT selects a mistake; MARKS=1 writes a timeline; TRACE=1 passes traceparent on."""

import json
import os
import time
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import requests

HABIT = os.environ.get("HABIT", "")
URL = os.environ["MODEL_BASE_URL"].rstrip("/").removesuffix("/v1") + "/v1/chat/completions"


def mark(event, **fields):
    if os.environ.get("MARKS"):
        with open(os.environ["DRILL_LOG"], "a", encoding="utf-8") as log:
            log.write(json.dumps({"t": datetime.now(UTC).isoformat(), "event": event, **fields}) + "\n")


def answer(prompt, request_id, headers):
    try:
        call = {"model": "large", "messages": [{"role": "user", "content": prompt}]}
        # `requests` has no time limit unless it is given one: "patience" forgot it.
        reply = requests.post(URL, json=call, headers=headers, timeout=None if HABIT == "patience" else 0.8)
        if HABIT != "trusting":  # a 503 raises nothing by itself
            reply.raise_for_status()
        text = reply.json()["choices"][0]["message"]["content"]
        mark("model_ok", id=request_id, path="primary")
    except requests.RequestException:
        mark("fallback_engaged", id=request_id, path="fallback")
        if HABIT == "sluggish":
            time.sleep(0.5)
        text = "We are looking into it and will write to you today."
    return text


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
