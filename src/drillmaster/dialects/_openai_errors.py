"""OpenAI's errors, which its chat and its responses share. No entry.

An error is `{"error": {"message", "type", "param", "code"}}`. The money rows are one `type`, and its older and newer codes.
"""

from drillmaster.dialects import Condition

__all__ = ["OPENAI_ERRORS"]

_INVALID = "invalid_request_error"
_SERVER = "server_error"


def _money(name: str, code: str, source: str) -> Condition:
    return Condition(
        name=name,
        status=429,
        kind="insufficient_quota",
        code=code,
        message="You exceeded your current quota, please check your plan and billing details.",
        source=source,
        transient=False,
    )


OPENAI_ERRORS = (
    Condition(
        name="bad-request",
        status=400,
        kind=_INVALID,
        message="The request could not be understood.",
        source="S",
        transient=False,
    ),
    Condition(
        name="context",
        status=400,
        kind=_INVALID,
        code="context_length_exceeded",
        param="messages",
        message="This model's maximum context length is 128000 tokens. However, your messages resulted in 128001 tokens. "
        "Please reduce the length of the messages.",
        source="T chatbot-ui#102",
        transient=False,
    ),
    Condition(
        name="auth",
        status=401,
        kind=_INVALID,
        code="invalid_api_key",
        message="Incorrect API key provided: sk-..***... You can find your API key at "
        "https://platform.openai.com/account/api-keys.",
        source="T continuedev/continue#9358",
        transient=False,
    ),
    Condition(
        name="permission",
        status=403,
        kind="request_forbidden",
        code="unsupported_country_region_territory",
        message="Country, region, or territory not supported",
        source="T home-assistant/core#120072",
        transient=False,
    ),
    Condition(
        name="not-found",
        status=404,
        kind=_INVALID,
        code="model_not_found",
        message="The model `stand-in` does not exist or you do not have access to it.",
        source="T Aider-AI/aider#2030",
        transient=False,
    ),
    Condition(
        name="rate",
        status=429,
        kind="requests",
        code="rate_limit_exceeded",
        message="Rate limit reached for requests. Please try again in {delay}.",
        source="2",
        tells_delay=True,
    ),
    Condition(
        name="rate-tokens",
        status=429,
        kind="tokens",
        code="rate_limit_exceeded",
        message="Rate limit reached for tokens per min (TPM). Please try again in {delay}.",
        source="2",
        tells_delay=True,
    ),
    Condition(
        name="slow-down",
        status=429,
        kind="requests",
        code="slow_down",
        message="Slow down: the rate of requests rose too quickly.",
        source="2 developersdigest.tech",
        tells_delay=True,
    ),
    _money("money", "credit_balance_exhausted", "2 developersdigest.tech"),
    _money("money-organization", "organization_spend_limit_exceeded", "2 developersdigest.tech"),
    _money("money-project", "project_spend_limit_exceeded", "2 developersdigest.tech"),
    _money("money-usage", "organization_usage_limit_exceeded", "2 developersdigest.tech"),
    _money("money-older", "insufficient_quota", "D, before the codes were split"),
    # A provider that speaks this dialect and has a word of its own.
    Condition(
        name="money-deepseek",
        status=402,
        kind="unknown_error",
        code="invalid_request_error",
        message="Insufficient Balance",
        source="D DeepSeek's error page; type and code ours",
        transient=False,
    ),
    Condition(
        name="server",
        status=500,
        kind=_SERVER,
        message="The server had an error while processing your request.",
        source="D",
    ),
    Condition(
        name="bad-gateway", status=502, kind=_SERVER, message="Bad gateway.", source="shape D, no such body documented"
    ),
    Condition(
        name="overloaded",
        status=503,
        kind="service_unavailable_error",
        code="server_is_overloaded",
        message="The server is currently overloaded. Please try again later.",
        source="2 developersdigest.tech",
        tells_delay=True,
    ),
    Condition(
        name="gateway-timeout",
        status=504,
        kind=_SERVER,
        message="Gateway timeout.",
        source="shape D, no such body documented",
    ),
)
