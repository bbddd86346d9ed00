"""requests: a bare POST in the shape of OpenAI's chat API; the status is looked at, as `raise_for_status` does."""

import importlib
from typing import Any

sdk: Any = importlib.import_module("requests")
caught = (sdk.RequestException,)


def client(job: Any) -> Any:
    one = sdk.Session()
    one.trust_env = False
    one.headers["authorization"] = "Bearer " + job["key"]
    return one


def defaults() -> Any:
    return {"connect_s": None, "read_s": None, "retries": 0}  # `timeout=None`: requests has no limit of its own


def call(one: Any, job: Any) -> Any:
    asked = {"model": job["model"], "messages": [{"role": "user", "content": job["prompt"]}], "stream": job["stream"]}
    url = job["url"] + "/v1/chat/completions"
    answer = one.post(url, json=asked, timeout=job["limit_s"], stream=job["stream"])
    answer.raise_for_status()
    if not job["stream"]:
        choice = answer.json()["choices"][0]
        return {"kind": "dict", "text": choice["message"]["content"], "finish": choice["finish_reason"]}
    return {"kind": "stream", **job["read"](line.decode("utf-8", "replace") for line in answer.iter_lines())}
