"""langchain-openai: `ChatOpenAI.invoke` and `.stream`."""

import importlib
from typing import Any

sdk: Any = importlib.import_module("langchain_openai")
caught = (importlib.import_module("openai").APIError,)


def client(job: Any) -> Any:
    return sdk.ChatOpenAI(model=job["model"], api_key=job["key"], base_url=job["url"] + "/v1", timeout=job["limit_s"])


def defaults() -> Any:
    one = sdk.ChatOpenAI(model="none", api_key="none", base_url="http://127.0.0.1:9").root_client
    return {"connect_s": one.timeout.connect, "read_s": one.timeout.read, "retries": one.max_retries}


def call(one: Any, job: Any) -> Any:
    if not job["stream"]:
        answer = one.invoke(job["prompt"])
        finish = answer.response_metadata.get("finish_reason")
        return {"kind": type(answer).__name__, "text": str(answer.content), "finish": finish}
    text, finish = "", None
    for event in one.stream(job["prompt"]):
        text += str(event.content)
        finish = event.response_metadata.get("finish_reason") or finish
    return {"kind": "stream", "text": text, "finish": finish}
