"""A support bot on plain `requests`. HABIT selects a mistake; MARKS=1 writes a timeline; TRACE=1 passes traceparent on."""

import os
import time

import requests
from service import APOLOGY, HABIT, mark, serve

URL = os.environ["MODEL_BASE_URL"].rstrip("/").removesuffix("/v1") + "/v1/chat/completions"


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
        text = APOLOGY
    return text


serve(answer)
