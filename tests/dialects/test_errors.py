"""Each provider's errors, field by field as they are documented or were seen; and what is absent."""

import json
from typing import Any

import pytest

from drillmaster.dialects import CONDITIONS, Bucket, Dialect, catalogue, load
from drillmaster.http1 import Answer

ALL = catalogue()


def error(name: str, status: int | None, condition: str | None = None, **more: Any) -> Answer:
    return load(name).error(status, condition, request_id="req_1", **more)


def body(answer: Answer) -> Any:
    return json.loads(answer.body)


def names_of(answer: Answer) -> set[str]:
    return {name for name, _ in answer.headers}


@pytest.mark.parametrize("dialect", ALL, ids=lambda dialect: dialect.name)
def test_neither_a_status_nor_a_condition_is_no_error(dialect: Dialect) -> None:
    with pytest.raises(ValueError, match="status or a condition"):
        dialect.error(None, request_id="r")


@pytest.mark.parametrize("dialect", ALL, ids=lambda dialect: dialect.name)
@pytest.mark.parametrize("status", [400, 401, 403, 404, 408, 409, 413, 422, 425, 429, 498, 500, 502, 503, 504, 529])
def test_every_status_has_a_body_of_the_shape_of_the_api(dialect: Dialect, status: int) -> None:
    answer = dialect.error(status, request_id="req_1")
    assert answer.status == status
    assert isinstance(body(answer), dict)
    assert answer.source
    assert "content-length" not in names_of(answer)
    assert dialect.ending(answer.status, b"application/json", answer.body, True).value == "error"


@pytest.mark.parametrize("dialect", ALL, ids=lambda dialect: dialect.name)
@pytest.mark.parametrize("condition", CONDITIONS)
def test_every_dialect_answers_to_every_common_name(dialect: Dialect, condition: str) -> None:
    answer = dialect.error(None, condition, request_id="req_1")
    assert 400 <= answer.status < 600
    assert isinstance(body(answer), dict)
    if not dialect.documents(condition):
        assert answer.status == CONDITIONS[condition]


@pytest.mark.parametrize("dialect", ALL, ids=lambda dialect: dialect.name)
def test_rows_have_a_source_and_are_told_apart(dialect: Dialect) -> None:
    assert len({(row.status, row.name) for row in dialect.table}) == len(dialect.table)
    for row in dialect.table:
        assert row.source and row.message
        assert dialect.error(row.status, row.name, request_id="r").source == row.source
        assert "{delay}" not in dialect.error(row.status, row.name, request_id="r").body.decode()
        if not row.transient:
            assert not row.tells_delay or row.name == "money", "who says when to come back says that it heals"


@pytest.mark.parametrize("dialect", ALL, ids=lambda dialect: dialect.name)
def test_a_condition_that_never_tells_a_delay_keeps_it_to_itself(dialect: Dialect) -> None:
    for row in dialect.table:
        if not row.tells_delay:
            asked = dialect.error(row.status, row.name, request_id="r", retry_after_s=77)
            assert asked == dialect.error(row.status, row.name, request_id="r")


# OpenAI


@pytest.mark.parametrize("name", ["openai_chat", "openai_responses"])
@pytest.mark.parametrize(
    ("status", "condition", "kind", "code", "param"),
    [
        (401, None, "invalid_request_error", "invalid_api_key", None),
        (400, "context", "invalid_request_error", "context_length_exceeded", "messages"),
        (429, None, "requests", "rate_limit_exceeded", None),
        (429, "rate-tokens", "tokens", "rate_limit_exceeded", None),
        (429, "slow-down", "requests", "slow_down", None),
        (429, "money", "insufficient_quota", "credit_balance_exhausted", None),
        (429, "money-organization", "insufficient_quota", "organization_spend_limit_exceeded", None),
        (429, "money-project", "insufficient_quota", "project_spend_limit_exceeded", None),
        (429, "money-usage", "insufficient_quota", "organization_usage_limit_exceeded", None),
        (429, "money-older", "insufficient_quota", "insufficient_quota", None),
        (503, None, "service_unavailable_error", "server_is_overloaded", None),
    ],
)
def test_openai(name: str, status: int, condition: str | None, kind: str, code: str, param: str | None) -> None:
    answer = error(name, status, condition)
    found = body(answer)["error"]
    assert set(found) == {"message", "type", "param", "code"}
    assert (found["type"], found["code"], found["param"]) == (kind, code, param)
    assert {"x-request-id", "openai-processing-ms"} <= names_of(answer)


def test_the_message_of_openai_for_a_wrong_key() -> None:
    message = body(error("openai_chat", 401))["error"]["message"]
    assert message.startswith("Incorrect API key provided: sk-..***..")
    assert message.endswith("You can find your API key at https://platform.openai.com/account/api-keys.")


def test_openai_says_the_delay_in_two_fields_and_never_for_money() -> None:
    headers = dict(error("openai_chat", 429, retry_after_s=1.2).headers)
    assert (headers["retry-after"], headers["retry-after-ms"]) == ("2", "1200")
    assert not {"retry-after", "retry-after-ms"} & names_of(error("openai_chat", 429))
    assert not {"retry-after", "retry-after-ms"} & names_of(error("openai_chat", 429, "money", retry_after_s=60))
    assert all(not row.transient for row in load("openai_chat").table if row.name.startswith("money"))


def test_openai_reports_its_limits_with_go_durations() -> None:
    requests = Bucket(limit=60, remaining=59, reset_s=0.012)
    tokens = Bucket(limit=150_000, remaining=149_984, reset_s=360)
    assert load("openai_chat").rate_headers(requests=requests, tokens=tokens) == (
        ("x-ratelimit-limit-requests", "60"),
        ("x-ratelimit-remaining-requests", "59"),
        ("x-ratelimit-reset-requests", "12ms"),
        ("x-ratelimit-limit-tokens", "150000"),
        ("x-ratelimit-remaining-tokens", "149984"),
        ("x-ratelimit-reset-tokens", "6m0s"),
    )


# Azure


def test_azure_has_two_401_shapes() -> None:
    key = error("azure_openai", 401)
    assert set(body(key)["error"]) == {"code", "message"}
    assert body(key)["error"]["code"] == "401"
    assert body(key)["error"]["message"].startswith(
        "Access denied due to invalid subscription key or wrong API endpoint. "
    )
    token = body(error("azure_openai", 401, "auth-expired"))
    assert set(token) == {"statusCode", "message"}
    assert token["statusCode"] == 401
    assert token["message"].startswith(
        "Unauthorized. Access token is missing, invalid, audience is incorrect ("
    ) and token["message"].endswith("), or have expired.")


def test_azure_words_a_rate_limit_with_operation_version_and_delay() -> None:
    answer = error(
        "azure_openai",
        429,
        retry_after_s=86_400,
        path="/openai/deployments/x/chat/completions?api-version=2024-10-21",
    )
    found = body(answer)["error"]
    assert found["code"] == "429" and "type" not in found
    assert found["message"].startswith(
        "Requests to the ChatCompletions_Create Operation under Azure OpenAI API version 2024-10-21 have exceeded "
        "token rate limit"
    )
    assert "Please retry after 86400 seconds" in found["message"]
    headers = dict(answer.headers)
    assert (headers["retry-after"], headers["retry-after-ms"]) == ("86400", "86400000")
    assert headers["apim-request-id"] == "req_1" and "x-request-id" not in headers


def test_azure_words_a_content_filter() -> None:
    found = body(error("azure_openai", 400, "content-filter"))["error"]
    assert found["code"] == "content_filter" and "type" not in found
    assert found["innererror"]["code"] == "ResponsibleAIPolicyViolation"
    assert found["innererror"]["content_filter_result"]["jailbreak"] == {"filtered": True, "detected": True}


def test_azure_reports_its_limits_in_whole_seconds() -> None:
    fields = dict(load("azure_openai").rate_headers(tokens=Bucket(limit=1_000, remaining=0, reset_s=8.2)))
    assert fields["x-ratelimit-reset-tokens"] == "9"


def test_azure_sends_a_rate_limit_of_responses_inside_a_200() -> None:
    [frame] = load("azure_openai").error_frames("failed", "rate", request_id="req_1")
    value = json.loads(frame.split(b"data: ")[1])
    assert value["type"] == "response.failed"
    assert value["response"]["status"] == "failed"
    assert value["response"]["error"]["message"].startswith("Requests to the ")


def test_azure_has_been_seen_to_say_nothing_of_use() -> None:
    answer = error("azure_openai", 429, "rate-untold", retry_after_s=9)
    assert dict(answer.headers)["x-ratelimit-remaining-requests"] == "-1"
    assert dict(answer.headers)["x-ratelimit-reset-requests"] == "0"
    assert not {name for name in names_of(answer) if name.startswith("retry-after")}


# Providers without a file of their own


def test_deepseek_is_openai_with_a_402() -> None:
    answer = error("openai_chat", None, "money-deepseek")
    assert answer.status == 402 and body(answer)["error"]["message"] == "Insufficient Balance"


def test_opencode_is_anthropic_with_a_wait_of_days() -> None:
    answer = error("anthropic", None, "rate-opencode", retry_after_s=277_403)
    assert answer.status == 429 and dict(answer.headers)["retry-after"] == "277403"
    assert (body(answer)["type"], body(answer)["error"]["type"]) == ("error", "GoUsageLimitError")


# Anthropic


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (402, "billing_error"),
        (403, "permission_error"),
        (404, "not_found_error"),
        (409, "conflict_error"),
        (413, "request_too_large"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (504, "timeout_error"),
        (529, "overloaded_error"),
    ],
)
def test_anthropic(status: int, kind: str) -> None:
    answer = error("anthropic", status)
    found = body(answer)
    assert set(found) == {"type", "error", "request_id"}
    assert (found["type"], found["error"]["type"], found["request_id"]) == ("error", kind, "req_1")
    assert set(found["error"]) == {"type", "message"}
    assert dict(answer.headers)["request-id"] == "req_1"


def test_the_spend_cap_of_anthropic_is_a_429_that_never_says_when_to_come_back() -> None:
    answer = error("anthropic", 429, "money", retry_after_s=60)
    assert body(answer)["error"]["type"] == "rate_limit_error"
    assert body(answer)["error"]["details"]["error_code"] == "enforced_spend_limit_reached"
    assert "retry-after" not in names_of(answer)
    assert not load("anthropic").condition(429, "money").transient
    assert dict(error("anthropic", 429, retry_after_s=3_600).headers)["retry-after"] == "3600"


def test_the_own_spend_limit_of_anthropic_is_a_400() -> None:
    assert body(error("anthropic", 400, "money-own-limit"))["error"]["type"] == "invalid_request_error"


def test_overloaded_is_529_at_anthropic_498_at_groq_and_503_elsewhere() -> None:
    found = {dialect.name: dialect.error(None, "overloaded", request_id="r").status for dialect in ALL}
    assert found.pop("anthropic") == 529
    assert found.pop("groq") == 498
    assert set(found.values()) == {503}


def test_anthropic_reports_its_limits_with_moments() -> None:
    bucket = Bucket(limit=50, remaining=49, reset_s=30)
    fields = dict(load("anthropic").rate_headers(requests=bucket, tokens=bucket, now_s=1_800_000_000))
    assert set(fields) == {
        f"anthropic-ratelimit-{what}-{field}"
        for what in ("requests", "tokens", "input-tokens", "output-tokens")
        for field in ("limit", "remaining", "reset")
    }
    assert fields["anthropic-ratelimit-tokens-reset"] == "2027-01-15T08:00:30Z"


# Gemini


@pytest.mark.parametrize(
    ("status", "condition", "kind"),
    [
        (400, "money", "FAILED_PRECONDITION"),
        (403, None, "PERMISSION_DENIED"),
        (429, None, "RESOURCE_EXHAUSTED"),
        (503, None, "UNAVAILABLE"),
        (504, None, "DEADLINE_EXCEEDED"),
    ],
)
def test_gemini(status: int, condition: str | None, kind: str) -> None:
    found = body(error("gemini", status, condition))["error"]
    assert set(found) <= {"code", "message", "status", "details"}
    assert (found["code"], found["status"]) == (status, kind)


@pytest.mark.parametrize(
    ("condition", "quota"), [("rate", "PerMinute"), ("rate-tokens", "PerMinute"), ("daily", "PerDay")]
)
def test_gemini_says_which_quota_and_when_in_the_body_alone(condition: str, quota: str) -> None:
    answer = error("gemini", 429, condition, retry_after_s=36)
    assert not {name for name in names_of(answer) if "retry" in name or "ratelimit" in name}
    details = {entry["@type"]: entry for entry in body(answer)["error"]["details"]}
    assert quota in details["type.googleapis.com/google.rpc.QuotaFailure"]["violations"][0]["quotaId"]
    assert details["type.googleapis.com/google.rpc.RetryInfo"]["retryDelay"] == "36s"


@pytest.mark.parametrize(
    ("seconds", "delay", "said"),
    [
        (45.837906927, "45.837906927s", "45.837906927s"),
        (37_025.7, "37025.7s", "10h17m5.7s"),
        (60, "60s", "1m0s"),
    ],
)
def test_gemini_says_a_delay_as_it_was_seen(seconds: float, delay: str, said: str) -> None:
    found = body(error("gemini", 429, retry_after_s=seconds))["error"]
    assert found["details"][-1]["retryDelay"] == delay
    assert found["message"].endswith(f"Please retry in {said}.")


def test_gemini_without_a_delay_has_no_retry_info() -> None:
    assert b"RetryInfo" not in error("gemini", 429).body
    assert b"retry" not in error("gemini", 429).body


# OpenRouter


@pytest.mark.parametrize("status", [400, 401, 402, 403, 408, 429, 502, 503])
def test_the_code_of_openrouter_is_the_status_as_a_number(status: int) -> None:
    found = body(error("openrouter", status))
    assert set(found) == {"error"}
    assert found["error"]["code"] == status and isinstance(found["error"]["message"], str)
    assert set(found["error"]) <= {"code", "message", "metadata"}


def test_openrouter_says_when_to_come_back_on_429_on_503_and_for_a_budget_in_flight() -> None:
    table = load("openrouter").table
    assert {(row.status, row.name) for row in table if row.tells_delay} == {
        (402, "money-in-flight"),
        (429, "rate"),
        (503, "overloaded"),
    }
    assert dict(error("openrouter", 429, retry_after_s=5).headers)["retry-after"] == "5"
    assert "retry-after" not in names_of(error("openrouter", 402, retry_after_s=5))


def test_openrouter_after_generation_began_is_a_200_with_an_error() -> None:
    [frame] = load("openrouter").error_frames(request_id="req_1", condition="bad-gateway")
    value = json.loads(frame.removeprefix(b"data: "))
    assert value["error"]["code"] == 502
    assert value["choices"][0]["finish_reason"] == "error"
    whole = error("openrouter", 502).body  # the same body with status 200 is its error without a stream
    assert load("openrouter").ending(200, b"application/json", whole, True).value == "error"


# Groq


@pytest.mark.parametrize("status", [413, 422, 424, 429, 498, 499, 503])
def test_groq_documents_its_statuses(status: int) -> None:
    assert any(row.status == status and row.source.startswith("D ") for row in load("groq").table)


def test_groq() -> None:
    found = body(error("groq", 429))["error"]
    assert (found["type"], found["code"]) == ("tokens", "rate_limit_exceeded")
    assert body(error("groq", 498))["error"]["code"] == "capacity_exceeded"


def test_groq_says_when_to_come_back_on_429_alone() -> None:
    answers = [error("groq", row.status, row.name, retry_after_s=7) for row in load("groq").table]
    assert {answer.status for answer in answers if "retry-after" in names_of(answer)} == {429}
    assert dict(error("groq", 429, retry_after_s=7).headers)["retry-after"] == "7"
    assert "retry-after-ms" not in names_of(error("groq", 429, retry_after_s=7))


# Mistral


def test_mistral_has_two_429_shapes() -> None:
    assert body(error("mistral", 429)) == {
        "object": "error",
        "message": "Rate limit exceeded",
        "type": "rate_limited",
        "param": None,
        "code": "1300",
        "raw_status_code": 429,
    }
    assert body(error("mistral", 429, "rate-older")) == {"message": "Requests rate limit exceeded"}


def test_mistral_says_no_delay_that_nobody_has_verified() -> None:
    answer = error("mistral", 429, retry_after_s=7)
    assert not {name for name in names_of(answer) if "retry" in name}
    assert load("mistral").rate_headers(requests=Bucket(limit=1, remaining=0, reset_s=1)) == ()


# Ollama, MCP


@pytest.mark.parametrize("status", [400, 404, 429, 500, 503])
def test_the_error_of_ollama_is_a_text(status: int) -> None:
    found = body(error("ollama", status))
    assert set(found) == {"error"} and isinstance(found["error"], str)


def test_behind_the_path_of_chat_completions_the_error_of_ollama_is_an_object() -> None:
    for path in ("/v1/chat/completions", "/v1/chat/completions?a=1"):
        assert isinstance(body(error("ollama", 500, path=path))["error"], dict)


def test_an_error_of_mcp_is_json_rpc_and_carries_the_id_of_the_call() -> None:
    asked = b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{}}'
    found = body(error("mcp", 500, asked=asked))
    assert (found["jsonrpc"], found["id"]) == ("2.0", 7)
    assert found["error"]["code"] == -32603
    assert body(error("mcp", 500))["id"] is None
    assert dict(error("mcp", 401).headers)["www-authenticate"] == 'Bearer realm="mcp"'
    # RFC 6750, 3: a scheme, and behind a space its parameters.
    assert dict(error("mcp", 401, "auth-expired").headers)["www-authenticate"] == (
        'Bearer realm="mcp", error="invalid_token", error_description="The access token expired"'
    )
