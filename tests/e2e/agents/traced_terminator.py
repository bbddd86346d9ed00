"""A terminator for webhooks and its worker, traced by OpenTelemetry's own instrumentation: traced_terminator.py HOW FORMAT OUT.

HOW: `worker` asks a model afterwards, in the accept's trace; `link` the same in a trace of its own that links back; `first` asks
before it answers; `inside` asks in the process while the 202 waits, without context. FORMAT: `otlp` or `console`.
"""

import asyncio
import json
import queue
import socket
import sqlite3
import sys
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import openai
import uvicorn
from opentelemetry import context, trace
from opentelemetry.exporter.otlp.json.file import FileSpanExporter
from opentelemetry.instrumentation.asgi import OpenTelemetryMiddleware
from opentelemetry.instrumentation.openai import OpenAIInstrumentor
from opentelemetry.instrumentation.sqlite3 import SQLite3Instrumentor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

HOW, FORMAT, OUT = sys.argv[1], sys.argv[2], Path(sys.argv[3])


class Model(BaseHTTPRequestHandler):
    """A model that takes a tenth of a second."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        time.sleep(0.1)
        message = {"role": "assistant", "content": "invoice paid"}
        said = {"id": "c", "object": "chat.completion", "created": 1, "model": "gpt-4o"}
        body = json.dumps({**said, "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        pass


def main() -> None:
    resource = Resource.create({"service.name": "terminator", "host.name": "lab"})
    provider = TracerProvider(resource=resource)
    stream = OUT.open("w")
    exporter = FileSpanExporter(stream=stream) if FORMAT == "otlp" else ConsoleSpanExporter(out=stream)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    OpenAIInstrumentor().instrument()
    SQLite3Instrumentor().instrument()
    tracer = trace.get_tracer("lab")
    models = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=models.serve_forever, daemon=True).start()
    client = openai.OpenAI(api_key="k", base_url=f"http://127.0.0.1:{models.server_address[1]}/v1", max_retries=0)
    inbox = sqlite3.connect(OUT.with_suffix(".db"), check_same_thread=False, isolation_level=None)
    inbox.execute("create table events (id text primary key)")
    work: queue.Queue[trace.SpanContext | None] = queue.Queue()

    def ask() -> None:
        client.chat.completions.create(model="gpt-4o", messages=[{"role": "user", "content": "summarise"}])

    def worker() -> None:
        while (accepted := work.get()) is not None:
            time.sleep(0.05)  # the answer is out by then
            above = trace.set_span_in_context(trace.NonRecordingSpan(accepted))
            if HOW == "link":
                with tracer.start_as_current_span(
                    "process evt", context=context.Context(), links=[trace.Link(accepted)], kind=trace.SpanKind.CONSUMER
                ):
                    ask()
            else:
                with tracer.start_as_current_span("process evt", context=above, kind=trace.SpanKind.CONSUMER):
                    ask()

    async def receive(request: Request) -> Response:
        event = json.loads(await request.body())
        if HOW == "first":
            ask()
        if HOW == "inside":
            thread = threading.Thread(target=ask)  # nothing is handed on to it
            thread.start()
            await asyncio.to_thread(thread.join)
        inbox.cursor().execute("insert or ignore into events values (?)", (event["id"],))
        work.put(trace.get_current_span().get_span_context())
        return Response(status_code=202)

    app = OpenTelemetryMiddleware(Starlette(routes=[Route("/webhooks/billing", receive, methods=["POST"])]))
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
    serving = threading.Thread(target=lambda: server.run(sockets=[listening]))
    serving.start()
    working = threading.Thread(target=worker)
    working.start()
    url = f"http://127.0.0.1:{listening.getsockname()[1]}/webhooks/billing"
    for n in range(3):
        body = json.dumps({"id": f"evt_{n}"}).encode()
        with urllib.request.urlopen(urllib.request.Request(url, data=body, method="POST"), timeout=10) as reply:
            assert reply.status == 202
    work.put(None)
    working.join()
    server.should_exit = True
    serving.join()
    provider.shutdown()
    stream.close()


if __name__ == "__main__":
    main()
