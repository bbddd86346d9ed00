"""A support bot that streams OpenAI's responses. HABIT selects a mistake; MARKS=1 writes a timeline; TRACE=1 passes
traceparent on."""

import asyncio
import json
import os
import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import openai

HABIT = os.environ.get("HABIT", "")
client = openai.AsyncOpenAI(base_url=os.environ["OPENAI_BASE_URL"], api_key="none", timeout=0.8, max_retries=0)
loop = asyncio.new_event_loop()
threading.Thread(target=loop.run_forever, daemon=True).start()


def mark(event, **fields):
    if os.environ.get("MARKS"):
        with open(os.environ["DRILL_LOG"], "a", encoding="utf-8") as log:
            log.write(json.dumps({"t": datetime.now(UTC).isoformat(), "event": event, **fields}) + "\n")


async def ask(prompt, headers):
    said, ended = [], False
    async with asyncio.timeout(1.0):
        async for event in await client.responses.create(
            model="large", input=prompt, stream=True, extra_headers=headers
        ):
            if event.type == "response.output_text.delta":
                said.append(event.delta)
            ended = ended or event.type == "response.completed"
    if not ended and HABIT != "trusting":  # "trusting" takes what came for the answer
        raise ConnectionError("the answer has no end")
    return "".join(said)


def answer(prompt, request_id, headers):
    try:
        text = asyncio.run_coroutine_threadsafe(ask(prompt, headers), loop).result()
        mark("model_ok", id=request_id, path="primary")
    except (openai.APIError, ValueError, OSError):
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
