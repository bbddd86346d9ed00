"""Terminator and worker of a settings file, both traced, with a model that hangs: traced_hook.py SETTINGS OUT EARLY.

With EARLY `early` something in the accept's process asks the model before the answer.
"""

import socket
import sys
import threading
import time
import urllib.request
from pathlib import Path

import msgspec
import uvicorn
from opentelemetry import trace
from opentelemetry.exporter.otlp.json.file import FileSpanExporter
from opentelemetry.instrumentation.asgi import OpenTelemetryMiddleware
from opentelemetry.instrumentation.sqlite3 import SQLite3Instrumentor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

SETTINGS, OUT, EARLY = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3] == "early"

provider = TracerProvider(resource=Resource.create({"service.name": "terminator", "host.name": "lab"}))
provider.add_span_processor(SimpleSpanProcessor(FileSpanExporter(OUT)))
trace.set_tracer_provider(provider)
SQLite3Instrumentor().instrument()

from drillmaster.adapters.worker import webhook  # noqa: E402 - behind the instrumentation
from drillmaster.adapters.worker.webhook_app import terminator  # noqa: E402
from drillmaster.adapters.worker.webhook_worker import Worker, WorkerLimits  # noqa: E402
from drillmaster.kits.webhook.ledger import rule  # noqa: E402
from drillmaster.stores.inbox_opening import open_inbox  # noqa: E402
from tests.e2e.hooklab import PATH, signed  # noqa: E402

LIMITS = WorkerLimits(lease_s=5, max_attempts=3, retry_after_s=1, note_within_s=0.1, note_fields=("/type",))


def hang(copy: str) -> object:
    with trace.get_tracer("models").start_as_current_span("chat gpt-4o", kind=trace.SpanKind.CLIENT) as span:
        span.set_attribute("gen_ai.operation.name", "chat")
        time.sleep(0.3)
        return None


def main() -> None:
    if EARLY:
        kept = webhook.Keeper.keep

        async def keep(self: webhook.Keeper, arrival: webhook.Arrival) -> webhook.Stored:
            hang("")
            return await kept(self, arrival)

        webhook.Keeper.keep = keep  # type: ignore[method-assign]
    with open_inbox(str(SETTINGS.parent / "inbox.db"), within_s=2) as inbox:
        inbox.prepare()
    app = OpenTelemetryMiddleware(terminator(SETTINGS))
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
    serving = threading.Thread(target=lambda: server.run(sockets=[listening]))
    serving.start()
    url = f"http://127.0.0.1:{listening.getsockname()[1]}{PATH}"
    for n in range(3):
        document = {"id": f"evt_{n}", "type": "invoice.paid", "account": "a", "amount_minor": 5, "currency": "EUR"}
        body = msgspec.json.encode(document)
        request = urllib.request.Request(url, data=body, headers=signed(body), method="POST")
        with urllib.request.urlopen(request, timeout=10) as reply:
            assert reply.status == 202
    with open_inbox(str(SETTINGS.parent / "inbox.db"), within_s=2) as inbox:
        worker = Worker(inbox, rule, LIMITS, model=hang)
        while worker.step() is not None:
            pass
        assert worker.counts["effect"] == 3 and worker.counts["note-too-late"] == 3
    time.sleep(0.4)
    server.should_exit = True
    serving.join()
    provider.shutdown()


if __name__ == "__main__":
    main()
