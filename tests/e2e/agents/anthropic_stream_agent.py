"""A support bot that streams from the `anthropic` SDK. HABIT selects a mistake; MARKS=1 writes a timeline; TRACE=1 passes
traceparent on."""

import asyncio
import json
import os
import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import anthropic
import httpx2

HABIT = os.environ.get("HABIT", "")
WHOLE_ANSWER_S = None if HABIT in ("narrow", "patient") else 1.0
# "narrow" trusts that a class called APIError is what every error of the API is.
CAUGHT = anthropic.APIError if HABIT == "narrow" else (anthropic.APIError, httpx2.HTTPError, ValueError, OSError)

client = anthropic.AsyncAnthropic(base_url=os.environ["ANTHROPIC_BASE_URL"], api_key="none", timeout=0.8, max_retries=0)
loop = asyncio.new_event_loop()
threading.Thread(target=loop.run_forever, daemon=True).start()


def mark(event, **fields):
    if os.environ.get("MARKS"):
        with open(os.environ["DRILL_LOG"], "a", encoding="utf-8") as log:
            log.write(json.dumps({"t": datetime.now(UTC).isoformat(), "event": event, **fields}) + "\n")


async def ask(prompt, headers):
    said, ended = [], False
    async with asyncio.timeout(WHOLE_ANSWER_S):
        stream = await client.messages.create(
            model="large",
            max_tokens=200,
            messages=[{"role": "user", "content": prompt}],
            stream=True,
            extra_headers=headers,
        )
        async for event in stream:
            if event.type == "content_block_delta":
                said.append(event.delta.text)
            ended = ended or event.type == "message_stop"
    # "narrow" and "trusting" take what came for the answer.
    if not ended and HABIT not in ("narrow", "trusting"):
        raise ConnectionError("the answer has no end")
    return "".join(said)


def answer(prompt, request_id, headers):
    try:
        text = asyncio.run_coroutine_threadsafe(ask(prompt, headers), loop).result()
        mark("model_ok", id=request_id, path="primary")
    except CAUGHT:
        mark("fallback_engaged", id=request_id, path="fallback")
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
