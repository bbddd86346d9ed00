"""anthropic: the `messages.stream()` helper."""

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
    with one.messages.stream(**asked) as stream:
        text = "".join(stream.text_stream)
        return {"kind": "stream", "text": text, "finish": stream.get_final_message().stop_reason}
