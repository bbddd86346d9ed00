"""The pipeline of a weekly drill: the kit's workflow, with what a team says filled in and the rest left blank.

1. A command of the team's stands in the workflow's environment and is never part of a step's script.
2. A blank is an empty value: the step that needs it refuses, and says which it is.
"""

import re
from importlib import resources

from drillmaster.errors import Problem
from drillmaster.scaffold import fill

__all__ = ["GITHUB", "gitlab", "workflow"]

GITHUB = ".github/workflows/drillmaster-friday.yml"
_CRON = re.compile(r"(?:[0-9*,/-]+ ){4}[0-9A-Z*,/-]+", re.ASCII | re.IGNORECASE)
_USUAL_CRON = '"17 9 * * 5"'


def workflow(*, start: str | None = None, stop: str | None = None, cron: str | None = None) -> str:
    """Write the workflow for GitHub. `cron` is in UTC; None: Fridays at 9:17. Raises Problem for what is no schedule."""
    text = fill(_kit("github.yaml"), _said({"/env/START_STAGING": start, "/env/STOP_STAGING": stop}))
    if cron is not None:
        if _CRON.fullmatch(cron) is None:
            raise Problem(
                "cron",
                found=repr(cron[:60]),
                wanted="five fields, such as 17 9 * * 5, in UTC",
                remedy="write minute, hour, day, month and day of the week",
            )
        text = text.replace(_USUAL_CRON, f'"{cron}"')
    return text


def gitlab(*, start: str | None = None, stop: str | None = None) -> str:
    """Write the same for GitLab, whose schedules are made in its own pages."""
    return fill(_kit("gitlab.yaml"), _said({"/variables/START_STAGING": start, "/variables/STOP_STAGING": stop}))


def _said(values: dict[str, str | None]) -> dict[str, str]:
    """A blank as well: a workflow's environment holds text, and the schema wants it there."""
    return {pointer: value or "" for pointer, value in values.items()}


def _kit(name: str) -> str:
    return resources.files("drillmaster.kits").joinpath("friday").joinpath("ci").joinpath(name).read_text("utf-8")
