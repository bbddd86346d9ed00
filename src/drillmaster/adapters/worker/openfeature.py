"""A provider for OpenFeature's Python SDK that decides in the process, from the state that `chaos` keeps.

    api.set_provider(ChaosProvider())   # CHAOS_URL, CHAOS_TOKEN

An evaluation asks nobody and takes microseconds; over OFREP it takes a round trip. It is a worker as every other: its server
knows what it holds and what it met, and a kill waits for it. Flags are booleans: true means that this call meets the flag, and of a
capability that it is killed. The mission is the context's `targetingKey`. Where the server never answered, the SDK's default
holds: give true for a capability.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from openfeature.evaluation_context import EvaluationContext
from openfeature.exception import FlagNotFoundError, ProviderNotReadyError, TypeMismatchError
from openfeature.flag_evaluation import FlagResolutionDetails, FlagValueType, Reason
from openfeature.provider import AbstractProvider, Metadata

from drillmaster.adapters.worker import chaos
from drillmaster.strict import near

__all__ = ["ChaosProvider"]


class ChaosProvider(AbstractProvider):
    """One process's; `url` and `token` as `chaos.start` takes them."""

    def __init__(self, url: str | None = None, *, token: str | None = None) -> None:
        super().__init__()
        self._url = url
        self._token = token

    def get_metadata(self) -> Metadata:
        return Metadata(name="drillmaster chaos flags")

    def initialize(self, evaluation_context: EvaluationContext) -> None:
        """Begin to keep the state. Raises Problem, which the SDK takes for a provider that is not ready."""
        chaos.start(self._url, token=self._token)

    def shutdown(self) -> None:
        """Tell the last counts, and end; decorated functions of this process begin anew with their next call."""
        chaos.stop()

    def resolve_boolean_details(
        self, flag_key: str, default_value: bool, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[bool]:
        client = chaos.start(self._url, token=self._token)
        known = client.known
        if not known:
            raise ProviderNotReadyError("the flag server has not answered yet")
        kind = known.get(flag_key)
        if kind is None:
            meant = near(flag_key, known)
            raise FlagNotFoundError(f"no flag {flag_key!r}" + (f". Did you mean {meant!r}?" if meant else ""))
        mission = "" if evaluation_context is None else evaluation_context.targeting_key or ""
        live = client.meets(flag_key, kind, mission)
        if live is None:
            return FlagResolutionDetails(value=False, reason=Reason.STATIC, variant="off", flag_metadata={"kind": kind})
        told: dict[str, Any] = {
            name: value for name, value in live.params.items() if isinstance(value, bool | int | float | str)
        }
        told["kind"] = kind
        return FlagResolutionDetails(value=True, reason=Reason.STATIC, variant="on", flag_metadata=told)

    def resolve_string_details(
        self, flag_key: str, default_value: str, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[str]:
        raise TypeMismatchError("flags are booleans")

    def resolve_integer_details(
        self, flag_key: str, default_value: int, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[int]:
        raise TypeMismatchError("flags are booleans")

    def resolve_float_details(
        self, flag_key: str, default_value: float, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[float]:
        raise TypeMismatchError("flags are booleans")

    def resolve_object_details(
        self,
        flag_key: str,
        default_value: Sequence[FlagValueType] | Mapping[str, FlagValueType],
        evaluation_context: EvaluationContext | None = None,
    ) -> FlagResolutionDetails[Sequence[FlagValueType] | Mapping[str, FlagValueType]]:
        raise TypeMismatchError("flags are booleans")
