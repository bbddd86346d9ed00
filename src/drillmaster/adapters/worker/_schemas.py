"""Arguments against schemas, by `jsonschema-rs`, which fetches nothing: each schema as it is, and closed (`rules.tool_calls`)."""

import itertools
from typing import Any

from drillmaster.errors import Problem
from drillmaster.rules.tool_calls import overlay

__all__ = ["Schemas"]

_MOST_STEPS = 100_000
_MOST = 32
"""Faults counted of one call; one is enough to deny it."""
_DRAFTS = (("draft-04", "Draft4"), ("draft-06", "Draft6"), ("draft-07", "Draft7"), ("2019-09", "Draft201909"))
_UNKNOWN = ("unevaluatedProperties", "additionalProperties", "propertyNames", "falseSchema")


class Schemas:
    """Schemas compiled once each. Raises Problem where the library is not there."""

    def __init__(self) -> None:
        try:
            import jsonschema_rs
        except ImportError:
            raise Problem(
                "tools",
                found="no jsonschema-rs",
                wanted="the library that holds arguments against schemas",
                remedy="pip install 'drillmaster[contracts]'",
            ) from None
        self._rs: Any = jsonschema_rs
        self._known: dict[tuple[str, ...], tuple[Any, ...] | None] = {}

    def faults(self, key: tuple[str, ...], schema: Any, value: Any) -> tuple[int, int] | None:
        """Count the names that a schema does not have, and what else does not fit. None: the schema cannot be used.

        `key` names the schema for good: the digest of what it is from, and the tool.
        """
        if key not in self._known:
            if len(self._known) >= 10_000:  # a server that changes what it offers without end
                self._known.clear()
            self._known[key] = self._compiled(schema)
        compiled = self._known[key]
        if compiled is None:
            return None
        unknown = misfit = 0
        try:
            for validator in compiled:
                kinds = [error.kind for error in itertools.islice(validator.iter_errors(value), _MOST)]
                told = [len(getattr(one, "unexpected", None) or [0]) for one in kinds if one.name in _UNKNOWN]
                # What both say is one thing.
                unknown, misfit = max(unknown, sum(told)), max(misfit, len(kinds) - len(told))
        except (ValueError, RuntimeError, self._rs.ReferencingError):
            return None
        return unknown, misfit

    def _compiled(self, schema: Any) -> tuple[Any, ...] | None:
        if not isinstance(schema, dict):
            return None
        said = schema.get("$schema")
        draft = next((name for part, name in _DRAFTS if isinstance(said, str) and part in said), "Draft202012")
        plain = {word: one for word, one in schema.items() if word not in ("$schema", "$id", "id")}
        # Patterns in linear time where that can be; those that look around have so many steps, and past them nothing fits.
        for patterns in (self._rs.RegexOptions(), self._rs.FancyRegexOptions(backtrack_limit=_MOST_STEPS)):
            options: dict[str, Any] = {"offline": True, "pattern_options": patterns}
            try:
                as_signed = getattr(self._rs, f"{draft}Validator")(plain, **options)
                return as_signed, self._rs.Draft202012Validator(overlay(schema), **options)
            except (ValueError, RuntimeError, TypeError, RecursionError):
                continue
            except (self._rs.ValidationError, self._rs.ReferencingError):
                continue
        return None
