"""A support bot on the `openai` SDK that streams some of its answers and asks whole for the others.

It falls back on error statuses and time limits, and on nothing else: what is not an error of the SDK's own escapes, and half a
stream that ends in silence is passed on as an answer. BREAKER=s: after a failure it leaves the primary alone for so long.
"""

import json
import os
import time
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import openai

client = openai.OpenAI(
    base_url=os.environ["OPENAI_BASE_URL"], api_key="none", timeout=0.6, max_retries=int(os.environ.get("RETRIES", "0"))
)
BREAKER_S = float(os.environ.get("BREAKER", "0"))
CAUGHT = (openai.APIStatusError, openai.APITimeoutError)
open_until = 0.0


def mark(event, **fields):
    with open(os.environ["DRILL_LOG"], "a", encoding="utf-8") as log:
        log.write(json.dumps({"t": datetime.now(UTC).isoformat(), "event": event, **fields}) + "\n")


def ask(prompt, headers):
    asked = {"model": "large", "messages": [{"role": "user", "content": prompt}], "extra_headers": headers}
    if prompt.startswith("whole"):
        return client.chat.completions.create(**asked).choices[0].message.content
    pieces = client.chat.completions.create(**asked, stream=True)
    return "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices)


def answer(prompt, request_id, headers):
    global open_until
    try:
        if time.monotonic() < open_until:
            raise openai.APITimeoutError(request=None)
        text = ask(prompt, headers)
        mark("model_ok", id=request_id, path="primary")
    except CAUGHT:
        open_until = max(open_until, time.monotonic() + BREAKER_S if BREAKER_S else 0.0)
        mark("fallback_engaged", id=request_id, path="small-model")
        text = "We are looking into it and will write to you today."
    return text


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        request_id = self.headers.get("x-drill-request", "none")
        trace = self.headers.get("traceparent")
        try:
            prompt = parse_qs(urlsplit(self.path).query)["q"][0]
            status, text = 200, answer(prompt, request_id, {"traceparent": trace} if trace else None)
        except Exception as error:
            mark("unhandled_exception", id=request_id, kind=type(error).__name__)
            status, text = 500, ""
        body = text.encode()
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 128


Server(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
