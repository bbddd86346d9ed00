"""google-genai: `models.generate_content` and its stream."""

import importlib
from typing import Any

sdk: Any = importlib.import_module("google.genai")
caught = (importlib.import_module("google.genai.errors").APIError,)


def client(job: Any) -> Any:
    options = sdk.types.HttpOptions(base_url=job["url"], timeout=round(job["limit_s"] * 1000))
    return sdk.Client(api_key=job["key"], http_options=options)


def defaults() -> Any:
    options = sdk.types.HttpOptions()
    read_s = None if options.timeout is None else options.timeout / 1000
    return {"connect_s": read_s, "read_s": read_s, "retries": 0 if options.retry_options is None else 4}


def call(one: Any, job: Any) -> Any:
    if not job["stream"]:
        answer = one.models.generate_content(model=job["model"], contents=job["prompt"])
        finish = answer.candidates[0].finish_reason if answer.candidates else None
        return {"kind": type(answer).__name__, "text": answer.text, "finish": finish and str(finish.value)}
    text, finish = "", None
    for event in one.models.generate_content_stream(model=job["model"], contents=job["prompt"]):
        text += event.text or ""
        if event.candidates and event.candidates[0].finish_reason:
            finish = str(event.candidates[0].finish_reason.value)
    return {"kind": "stream", "text": text, "finish": finish}
