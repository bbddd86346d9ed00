"""The dialect `openai_responses`: OpenAI's responses."""

from typing import ClassVar

from drillmaster.dialects import Condition
from drillmaster.dialects._chat import OpenAIErrors
from drillmaster.dialects._openai_errors import OPENAI_ERRORS
from drillmaster.dialects._responses import Responses

__all__ = ["DIALECT", "OpenAIResponses"]


class OpenAIResponses(OpenAIErrors, Responses):
    """OpenAI responses: `POST .../responses`.

    Finished: `response.completed`, or `response.incomplete`, which is terminal and short of what was asked
    (`incomplete_details.reason`). Without a stream: a `status` of `completed` or `incomplete`. `response.failed` and both
    shapes of `error` are failures inside a 200.
    """

    name: ClassVar[str] = "openai_responses"
    carries: ClassVar[bytes | None] = rb'"delta":\s*"(?!")'
    hosts: ClassVar[tuple[bytes, ...]] = (b"api.openai.com",)
    shared: ClassVar[bool] = True
    table: ClassVar[tuple[Condition, ...]] = OPENAI_ERRORS


DIALECT = OpenAIResponses()
