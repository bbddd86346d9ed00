"""Run somebody's Artillery profile with the Artillery that is installed."""

__all__ = ["artillery_command"]


def artillery_command(
    path: str, program: str, *, url: str, said: dict[str, object]
) -> tuple[list[str], dict[str, str], str]:
    """TODO"""
    raise NotImplementedError
