"""The dialect `azure_openai`: OpenAI's models on Azure.

1. A deployment stands in the path and the body may name no model; `api-version` stands in the query.
2. Errors have a `code` that is the status as text, and no `type`. A token of Entra ID that expired is answered by another
   machine, in another shape, without an `error` object at all.
3. `x-ratelimit-reset-*` are whole seconds.
"""

import re
from typing import Any, ClassVar

import msgspec

from drillmaster.dialects import Condition, Peek, whole_seconds
from drillmaster.dialects._chat import JSON
from drillmaster.dialects._responses import ChatAndResponses
from drillmaster.http1 import Answer, RequestHead

__all__ = ["DIALECT", "AzureOpenAI"]

_DEPLOYMENT = re.compile(r"/openai/deployments/([^/]{1,128})/")
_VERSION = re.compile(r"[?&]api-version=([0-9A-Za-z.-]{1,32})")
_UNKNOWN_VERSION = "2024-10-21"
_SHAPE = "shape T, wording ours"


def _limit(name: str, what: str, source: str, *, transient: bool = True) -> Condition:
    return Condition(
        name=name,
        status=429,
        code="429",
        message="Requests to the {operation} Operation under Azure OpenAI API version {version} have exceeded "
        f"{what} of your current OpenAI S0 pricing tier. Please retry after {{delay}}. Please go here: "
        "https://aka.ms/oai/quotaincrease if you would like to further increase the default rate limit.",
        source=source,
        transient=transient,
        tells_delay=True,
    )


class AzureOpenAI(ChatAndResponses):
    """Azure OpenAI: `POST .../openai/deployments/NAME/...`, an `api-version` in the query, or an `api-key` field.

    Finished: as `openai_chat`, and as `openai_responses` on its path. Azure sends a rate limit of responses as
    `response.failed` inside a 200.
    """

    name: ClassVar[str] = "azure_openai"
    hosts: ClassVar[tuple[bytes, ...]] = (
        b".openai.azure.com",
        b".services.ai.azure.com",
        b".cognitiveservices.azure.com",
    )
    request_id_header: ClassVar[str] = "apim-request-id"
    table: ClassVar[tuple[Condition, ...]] = (
        Condition(
            name="bad-request",
            status=400,
            code="400",
            message="The request could not be understood.",
            source=_SHAPE,
            transient=False,
        ),
        Condition(
            name="content-filter",
            status=400,
            code="content_filter",
            param="prompt",
            message="The response was filtered due to the prompt triggering Azure OpenAI's content management policy. "
            "Please modify your prompt and retry.",
            source="T openai-agents-python#806",
            transient=False,
        ),
        Condition(
            name="context",
            status=400,
            code="context_length_exceeded",
            param="messages",
            message="This model's maximum context length is 128000 tokens. However, your messages resulted in 128001 "
            "tokens. Please reduce the length of the messages.",
            source="as OpenAI's, shape T",
            transient=False,
        ),
        Condition(
            name="auth",
            status=401,
            code="401",
            message="Access denied due to invalid subscription key or wrong API endpoint. Make sure to provide a valid key "
            "for an active subscription and use a correct regional API endpoint for your resource.",
            source="T SciSharp/BotSharp#386",
            transient=False,
        ),
        Condition(
            name="auth-expired",
            status=401,
            shape="entra",
            message="Unauthorized. Access token is missing, invalid, audience is incorrect "
            "(https://cognitiveservices.azure.com), or have expired.",
            source="T zotero-gpt#412",
            transient=False,
        ),
        Condition(
            name="not-found",
            status=404,
            code="DeploymentNotFound",
            message="The API deployment for this resource does not exist.",
            source=_SHAPE,
            transient=False,
        ),
        _limit("rate-tokens", "token rate limit", "T MS Q&A 1696619"),
        _limit("rate", "call rate limit", "T MS Q&A 1696619, its twin for calls"),
        _limit("daily", "token rate limit", "T MS Q&A 1696619: retry after 86400 seconds"),
        Condition(
            name="rate-untold",
            status=429,
            code="429",
            message="Requests have exceeded the rate limit of your current pricing tier.",
            source="T MS Q&A 5625878: responses, limits of -1 and 0, no retry-after",
        ),
        Condition(
            name="money",
            status=429,
            code="insufficient_quota",
            message="You exceeded your current quota, please check your plan and billing details.",
            source="as OpenAI's, shape T",
            transient=False,
        ),
        Condition(name="server", status=500, code="500", message="Internal server error", source=_SHAPE),
        Condition(
            name="overloaded",
            status=503,
            code="503",
            message="The service is temporarily unable to process your request. Please try again later.",
            source=_SHAPE,
            tells_delay=True,
        ),
    )

    def recognises(self, request: RequestHead) -> bool:
        # Any resource of Azure's counts by its path; `api-key` tells its unversioned API from others at /openai/v1.
        if "/openai/deployments/" in request.path:
            return True
        return self.speaks(request) and (b"api-version=" in request.target or b"api-key" in request.named)

    def peek(self, request: RequestHead, seen: Peek) -> Peek:
        if seen.model is None and (match := _DEPLOYMENT.search(request.path)):
            return Peek(match[1], seen.stream)
        return seen

    def unlisted(self, status: int) -> Condition:
        return Condition(name="unlisted", status=status, code=str(status), message=f"Error {status}.", source=_SHAPE)

    def error_object(self, row: Condition, delay: str) -> dict[str, Any]:
        message = row.message.replace("{delay}", delay)
        error: dict[str, Any] = {"code": row.code, "message": message}
        if row.param is not None:
            error["param"] = row.param
        if row.name == "content-filter":
            safe = {"filtered": False, "severity": "safe"}
            error["status"] = row.status
            error["innererror"] = {
                "code": "ResponsibleAIPolicyViolation",
                "content_filter_result": {
                    "hate": safe,
                    "jailbreak": {"filtered": True, "detected": True},
                    "self_harm": safe,
                    "sexual": safe,
                    "violence": safe,
                },
            }
        return error

    def word(
        self, row: Condition, *, request_id: str, retry_after_s: float | None, path: str = "", asked: bytes = b""
    ) -> Answer:
        if row.shape == "entra":
            body = b'{"statusCode":401,"message":"' + row.message.encode() + b'"}'
            return Answer(row.status, (JSON, (self.request_id_header, request_id)), body, row.source)
        version = _VERSION.search(path)
        operation = "Responses_Create" if "/responses" in path else "ChatCompletions_Create"
        message = row.message.replace("{operation}", operation)
        message = message.replace("{version}", version[1] if version else _UNKNOWN_VERSION)
        if retry_after_s is not None:
            message = message.replace("{delay}", f"{whole_seconds(retry_after_s)} seconds")
        row = msgspec.structs.replace(row, message=message)
        answer = super().word(row, request_id=request_id, retry_after_s=retry_after_s)
        if row.name != "rate-untold":
            return answer
        nothing = (("x-ratelimit-remaining-requests", "-1"), ("x-ratelimit-reset-requests", "0"))
        return Answer(answer.status, (*answer.headers, *nothing), answer.body, answer.source)

    def delay_headers(self, seconds: float) -> tuple[tuple[str, str], ...]:
        return (("retry-after", whole_seconds(seconds)), ("retry-after-ms", str(round(seconds * 1e3))))

    def reset(self, seconds: float) -> str:
        return whole_seconds(seconds)


DIALECT = AzureOpenAI()
