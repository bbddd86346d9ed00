"""openai: `responses.create`."""

import importlib
from typing import Any

sdk: Any = importlib.import_module("openai")
caught = (sdk.APIError,)


def client(job: Any) -> Any:
    return sdk.OpenAI(api_key=job["key"], base_url=job["url"] + "/v1", timeout=job["limit_s"])


def defaults() -> Any:
    one = sdk.OpenAI(api_key="none", base_url="http://127.0.0.1:9")
    return {"connect_s": one.timeout.connect, "read_s": one.timeout.read, "retries": one.max_retries}


def call(one: Any, job: Any) -> Any:
    asked = {"model": job["model"], "input": job["prompt"]}
    if not job["stream"]:
        answer = one.responses.create(**asked)
        if isinstance(answer, str):
            return {"kind": "str", "text": answer}
        if not answer.output:
            return {"kind": type(answer).__name__, "text": None, "note": f"output={answer.output!r}"}
        return {"kind": type(answer).__name__, "text": answer.output_text, "finish": answer.status}
    text, finish = "", None
    for event in one.responses.create(stream=True, **asked):
        if event.type == "response.output_text.delta":
            text += event.delta
        elif event.type in ("response.completed", "response.incomplete", "response.failed"):
            finish = event.response.status
        elif event.type == "error":
            finish = "error event"
    return {"kind": "stream", "text": text, "finish": finish}
