"""A support bot behind LiteLLM's router, whose fallback is healthy and goes round the proxy. HABIT selects how it is used;
MARKS=1 writes a timeline; TRACE=1 passes traceparent on."""

import asyncio
import json
import os
import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else the import asks the internet for prices

from litellm import Router

HABIT = os.environ.get("HABIT", "")
PRIMARY = {"model": "openai/standin-large", "api_base": os.environ["OPENAI_BASE_URL"], "timeout": 0.8}
BACKUP = {"model": "openai/standin-small", "api_base": os.environ["BACKUP_BASE_URL"], "timeout": 0.8}
router = Router(
    model_list=[
        {"model_name": "large", "litellm_params": {**PRIMARY, "stream_timeout": 0.8, "api_key": "none"}},
        {"model_name": "small", "litellm_params": {**BACKUP, "stream_timeout": 0.8, "api_key": "none"}},
    ],
    fallbacks=[{"large": ["small"]}],
    num_retries=0,
    disable_cooldowns=True,  # what the router tries is decided by this request, not by the ones before
)
loop = asyncio.new_event_loop()
threading.Thread(target=loop.run_forever, daemon=True).start()


def mark(event, **fields):
    if os.environ.get("MARKS"):
        with open(os.environ["DRILL_LOG"], "a", encoding="utf-8") as log:
            log.write(json.dumps({"t": datetime.now(UTC).isoformat(), "event": event, **fields}) + "\n")


async def ask(model, prompt, headers):
    said, used = [], ""
    stream = await router.acompletion(
        model=model, messages=[{"role": "user", "content": prompt}], stream=True, extra_headers=headers
    )
    async for piece in stream:
        used = piece.model or used
        said.append(piece.choices[0].delta.content or "")
    return used, "".join(said)


async def answer(prompt, headers):
    # As its documentation has it: the router falls back. "guarded" looks after what comes behind the first word as well.
    if HABIT != "guarded":
        return await ask("large", prompt, headers)
    try:
        async with asyncio.timeout(1.0):
            used, text = await ask("large", prompt, headers)
        if text.strip():
            return used, text
    except Exception as error:  # LiteLLM's errors of a stream share no class but this
        print(type(error).__name__, flush=True)
    return await ask("small", prompt, headers)


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        trace = self.headers.get("traceparent") if os.environ.get("TRACE") else None
        request_id = self.headers.get("x-drill-request", "none")
        mark("user_request", id=request_id, phase="start")
        try:
            prompt = parse_qs(urlsplit(self.path).query)["q"][0]
            asked = answer(prompt, {"traceparent": trace} if trace else None)
            used, text = asyncio.run_coroutine_threadsafe(asked, loop).result()
            status, body = 200, {"model": used, "text": text}
            primary = "large" in used
            mark("model_ok" if primary else "fallback_engaged", id=request_id, path="primary" if primary else "small")
        except Exception as error:
            mark("unhandled_exception", id=request_id, kind=type(error).__name__)
            status, body = 500, {}
        mark("user_request", id=request_id, phase="end", status=status)
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *args):
        pass


# The first call imports half of LiteLLM; a service is warm before it is asked.
asyncio.run_coroutine_threadsafe(ask("small", "hello", None), loop).result()
ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
