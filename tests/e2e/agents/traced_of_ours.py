"""Our own terminator, traced: traced_of_ours.py OUT. It is sent a good event, the same once more, and a forged one."""

import socket
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import uvicorn
from opentelemetry import trace
from opentelemetry.exporter.otlp.json.file import FileSpanExporter
from opentelemetry.instrumentation.asgi import OpenTelemetryMiddleware
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from drillmaster.adapters.worker.webhook import Endpoint, Keeper, Terminator
from drillmaster.guards.webhook import Webhook
from drillmaster.rules.webhook_schemes import SCHEMES, read_key, sign
from drillmaster.stores.inbox import Inbox
from drillmaster.stores.inbox_sqlite import SQLite

OUT = Path(sys.argv[1])
PATH = "/webhooks/billing"
KEY = read_key("a-secret-of-at-least-24-bytes", standard=False, place="k")


def opened() -> Inbox:
    return Inbox(SQLite(str(OUT.with_suffix(".db")), within_s=2))


def post(port: int, body: bytes, *, forged: bool = False) -> int:
    pairs = sign(SCHEMES["stripe"], b"another" if forged else body, [KEY], time_s=int(time.time()))
    headers = {name.decode(): value.decode() for name, value in pairs}
    request = urllib.request.Request(f"http://127.0.0.1:{port}{PATH}", data=body, headers=headers, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=10) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as refused:
        return int(refused.code)


def main() -> None:
    provider = TracerProvider(resource=Resource.create({"service.name": "terminator", "host.name": "lab"}))
    provider.add_span_processor(SimpleSpanProcessor(FileSpanExporter(OUT)))
    trace.set_tracer_provider(provider)
    opened().prepare()
    limits = Webhook(scheme="stripe", max_body_bytes=65_536, read_within_ms=2_000)
    endpoint = Endpoint(source="acme", path=PATH, limits=limits, keys=(KEY,))
    app = OpenTelemetryMiddleware(Terminator(endpoint, Keeper(opened, within_s=2, threads=1)))
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
    serving = threading.Thread(target=lambda: server.run(sockets=[listening]))
    serving.start()
    port = listening.getsockname()[1]
    body = b'{"id":"evt_1"}'
    assert [post(port, body), post(port, body), post(port, b'{"id":"evt_2"}', forged=True)] == [202, 202, 401]
    server.should_exit = True
    serving.join()
    provider.shutdown()


if __name__ == "__main__":
    main()
