"""An agent that tries its model twice, over an `openai` client that tries three times, and counts what it sends.

LOG gets a line for each attempt as the client's own transport sees it: whose it is, which of the SDK's tries, which of ours.
"""

import json
import os
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import openai

TRIES = 2
PAUSE_S = 0.2
here = threading.local()
lock = threading.Lock()


def seen(request):
    line = {"trace": here.trace, "sdk": int(request.headers["x-stainless-retry-count"]), "loop": here.loop}
    with lock, open(os.environ["LOG"], "a", encoding="utf-8") as log:
        log.write(json.dumps(line) + "\n")


client = openai.OpenAI(
    base_url=os.environ["OPENAI_BASE_URL"],
    api_key="none",
    timeout=3,
    max_retries=2,
    http_client=openai.DefaultHttpxClient(event_hooks={"request": [seen]}),
)


def answer(prompt, traceparent):
    here.trace = traceparent.split("-")[1]
    for here.loop in range(TRIES):
        try:
            reply = client.chat.completions.create(
                model="large",
                messages=[{"role": "user", "content": prompt}],
                extra_headers={"traceparent": traceparent},
            )
            return reply.choices[0].message.content
        except openai.APIError:
            time.sleep(PAUSE_S)
    return "We are looking into it and will write to you today."


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        text = answer(parse_qs(urlsplit(self.path).query)["q"][0], self.headers["traceparent"])
        self.send_response(200)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *args):
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 128


Server(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
