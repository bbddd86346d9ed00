"""A Friday drill's files: a registry of flags, missions, and examples for load generators that teams have."""

from datetime import date, timedelta
from importlib import resources

__all__ = ["EXAMPLES", "examples", "flags_file", "missions_file"]

EXAMPLES = ("locustfile.py", "artillery.yml")
_DEADLINE = "2027-12-31"
_SERVICE = "service: escalation-concierge"
_DAYS = 180


def flags_file(*, service: str | None, today: date) -> str:
    """The registry; `service` None leaves it blank. Its flags may be switched on for half a year."""
    text = _kit("flags.yaml").replace(_DEADLINE, (today + timedelta(days=_DAYS)).isoformat())
    return text if service is None else text.replace(_SERVICE, f"service: {service}".rstrip())


def missions_file() -> str:
    return _kit("missions.yaml")


def examples() -> dict[str, str]:
    """Files for Locust and Artillery, by name."""
    return {name: _kit(name) for name in EXAMPLES}


def _kit(name: str) -> str:
    return resources.files("drillmaster.kits").joinpath("friday").joinpath(name).read_text("utf-8")
