"""httpx: a bare POST in the shape of OpenAI's chat API; the status is looked at, as `raise_for_status` does."""

import importlib
from typing import Any

sdk: Any = importlib.import_module("httpx")
caught = (sdk.HTTPError,)


def client(job: Any) -> Any:
    return sdk.Client(timeout=job["limit_s"], trust_env=False, headers={"authorization": "Bearer " + job["key"]})


def defaults() -> Any:
    limit = sdk.Client(trust_env=False).timeout
    return {"connect_s": limit.connect, "read_s": limit.read, "retries": 0}


def call(one: Any, job: Any) -> Any:
    asked = {"model": job["model"], "messages": [{"role": "user", "content": job["prompt"]}], "stream": job["stream"]}
    url = job["url"] + "/v1/chat/completions"
    if not job["stream"]:
        answer = one.post(url, json=asked)
        answer.raise_for_status()
        choice = answer.json()["choices"][0]
        return {"kind": "dict", "text": choice["message"]["content"], "finish": choice["finish_reason"]}
    with one.stream("POST", url, json=asked) as answer:
        answer.raise_for_status()
        return {"kind": "stream", **job["read"](answer.iter_lines())}
