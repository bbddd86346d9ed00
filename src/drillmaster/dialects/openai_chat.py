"""The dialect `openai_chat`: OpenAI's chat completions, and the many servers that speak it."""

from typing import Any, ClassVar

from drillmaster.dialects import Condition, Reply
from drillmaster.dialects._chat import Chat, OpenAIErrors
from drillmaster.dialects._openai_errors import OPENAI_ERRORS

__all__ = ["DIALECT", "OpenAIChat"]


class OpenAIChat(OpenAIErrors, Chat):
    """OpenAI chat completions: `POST .../chat/completions`.

    Finished: a `finish_reason`, or `data: [DONE]`; gateways leave out the one or the other. Without a stream: a
    `finish_reason`.
    """

    name: ClassVar[str] = "openai_chat"
    hosts: ClassVar[tuple[bytes, ...]] = (b"api.openai.com",)
    shared: ClassVar[bool] = True
    table: ClassVar[tuple[Condition, ...]] = OPENAI_ERRORS

    def top(self, reply: Reply) -> dict[str, Any]:
        return {**super().top(reply), "system_fingerprint": "fp_standin"}


DIALECT = OpenAIChat()
