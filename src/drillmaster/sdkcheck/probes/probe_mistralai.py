"""mistralai: `chat.complete` and `chat.stream`."""

import importlib
from typing import Any


def _class() -> Any:
    try:
        return importlib.import_module("mistralai.client").Mistral
    except (ImportError, AttributeError):
        return importlib.import_module("mistralai").Mistral


def _error() -> Any:
    for module in ("mistralai.client.errors", "mistralai.models", "mistralai.client.models"):
        try:
            found = importlib.import_module(module)
        except ImportError:
            continue
        for name in ("MistralError", "SDKError"):
            if hasattr(found, name):
                return getattr(found, name)
    raise ImportError("mistralai has neither MistralError nor SDKError")


Mistral = _class()
caught = (_error(),)


def client(job: Any) -> Any:
    return Mistral(api_key=job["key"], server_url=job["url"] + "/mistral", timeout_ms=round(job["limit_s"] * 1000))


def defaults() -> Any:
    # The client's own limit is overridden by the `None` of each request: nothing limits a call.
    return {"connect_s": None, "read_s": None, "retries": 0}


def call(one: Any, job: Any) -> Any:
    asked = {"model": job["model"], "messages": [{"role": "user", "content": job["prompt"]}]}
    if not job["stream"]:
        answer = one.chat.complete(**asked)
        choice = answer.choices[0]
        return {"kind": type(answer).__name__, "text": choice.message.content, "finish": str(choice.finish_reason)}
    text, finish = "", None
    with one.chat.stream(**asked) as events:
        for event in events:
            for choice in event.data.choices:
                text += choice.delta.content or ""
                finish = str(choice.finish_reason) if choice.finish_reason else finish
    return {"kind": "stream", "text": text, "finish": finish}
