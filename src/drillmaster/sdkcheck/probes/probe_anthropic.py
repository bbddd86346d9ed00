"""anthropic: `messages.create`."""

import importlib
from typing import Any

sdk: Any = importlib.import_module("anthropic")
caught = (sdk.APIError,)


def client(job: Any) -> Any:
    return sdk.Anthropic(api_key=job["key"], base_url=job["url"], timeout=job["limit_s"])


def defaults() -> Any:
    one = sdk.Anthropic(api_key="none", base_url="http://127.0.0.1:9")
    return {"connect_s": one.timeout.connect, "read_s": one.timeout.read, "retries": one.max_retries}


def call(one: Any, job: Any) -> Any:
    asked = {"model": job["model"], "max_tokens": 500, "messages": [{"role": "user", "content": job["prompt"]}]}
    if not job["stream"]:
        answer = one.messages.create(**asked)
        if isinstance(answer, str):
            return {"kind": "str", "text": answer}
        if not answer.content:
            return {"kind": type(answer).__name__, "text": None, "note": f"content={answer.content!r}"}
        text = "".join(getattr(block, "text", "") for block in answer.content)
        return {"kind": type(answer).__name__, "text": text, "finish": answer.stop_reason}
    text, finish = "", None
    for event in one.messages.create(stream=True, **asked):
        if event.type == "content_block_delta":
            text += getattr(event.delta, "text", "")
        elif event.type == "message_delta":
            finish = event.delta.stop_reason or finish
    return {"kind": "stream", "text": text, "finish": finish}
