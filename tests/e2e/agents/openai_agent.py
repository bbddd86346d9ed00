"""A support bot on the `openai` SDK. HABIT selects a mistake; MARKS=1 writes a timeline; TRACE=1 passes traceparent on."""

import json
import os
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import openai

HABIT = os.environ.get("HABIT", "")
client = openai.OpenAI(
    base_url=os.environ["OPENAI_BASE_URL"],
    api_key="none",
    timeout=None if HABIT == "patience" else 0.8,
    max_retries=0,
)
# "narrow" knows error statuses only: a reset and a time limit are other classes of the SDK.
CAUGHT = openai.APIStatusError if HABIT == "narrow" else openai.APIError


def mark(event, **fields):
    if os.environ.get("MARKS"):
        with open(os.environ["DRILL_LOG"], "a", encoding="utf-8") as log:
            log.write(json.dumps({"t": datetime.now(UTC).isoformat(), "event": event, **fields}) + "\n")


def answer(prompt, request_id, headers):
    try:
        reply = client.chat.completions.create(
            model="large", messages=[{"role": "user", "content": prompt}], extra_headers=headers
        )
        text = reply.choices[0].message.content
        mark("model_ok", id=request_id, path="primary")
    except CAUGHT:
        mark("fallback_engaged", id=request_id, path="fallback")
        # "hollow" says that it fell back, and has nothing to say.
        text = "" if HABIT == "hollow" else "We are looking into it and will write to you today."
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
