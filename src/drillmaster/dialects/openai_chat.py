"""The dialect `openai_chat`: OpenAI's chat completions, and the many servers that speak it."""

from typing import Any, ClassVar

from drillmaster.dialects import Condition, Reply, whole_seconds
from drillmaster.dialects._chat import Chat
from drillmaster.dialects._openai_errors import OPENAI_ERRORS

__all__ = ["DIALECT", "OpenAIChat"]


class OpenAIChat(Chat):
    """OpenAI chat completions: `POST .../chat/completions`.

    Finished: a `finish_reason`, or `data: [DONE]`; gateways leave out the one or the other. Without a stream: a
    `finish_reason`.
    """

    name: ClassVar[str] = "openai_chat"
    hosts: ClassVar[tuple[bytes, ...]] = (b"api.openai.com",)
    shared: ClassVar[bool] = True
    table: ClassVar[tuple[Condition, ...]] = OPENAI_ERRORS

    def delay_headers(self, seconds: float) -> tuple[tuple[str, str], ...]:
        # Source S: the SDK reads the milliseconds first.
        return (("retry-after", whole_seconds(seconds)), ("retry-after-ms", str(round(seconds * 1e3))))

    def top(self, reply: Reply) -> dict[str, Any]:
        return {**super().top(reply), "system_fingerprint": "fp_standin"}


DIALECT = OpenAIChat()
