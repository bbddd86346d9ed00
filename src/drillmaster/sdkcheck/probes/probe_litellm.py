"""litellm: `completion` with an `openai/` model."""

import importlib
from typing import Any

sdk: Any = importlib.import_module("litellm")
caught = (importlib.import_module("openai").APIError,)  # what litellm's own classes descend from


def client(job: Any) -> Any:
    return {"api_key": job["key"], "api_base": job["url"] + "/v1", "timeout": job["limit_s"]}


def defaults() -> Any:
    limit_s = float(sdk.request_timeout)
    return {"connect_s": limit_s, "read_s": limit_s, "retries": 2 if sdk.num_retries is None else sdk.num_retries}


def call(one: Any, job: Any) -> Any:
    asked = {"model": "openai/" + job["model"], "messages": [{"role": "user", "content": job["prompt"]}], **one}
    if not job["stream"]:
        answer = sdk.completion(**asked)
        choice = answer.choices[0]
        return {"kind": type(answer).__name__, "text": choice.message.content, "finish": choice.finish_reason}
    text, finish = "", None
    for event in sdk.completion(stream=True, **asked):
        for choice in event.choices or ():
            text += choice.delta.content or ""
            finish = choice.finish_reason or finish
    return {"kind": "stream", "text": text, "finish": finish}
