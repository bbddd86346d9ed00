"""The plan's section `detectors`: where the drill listens for the alert itself.

1. A receiver has a name, which stands in the evidence, and a form, which says who speaks and how it is known that it is they.
2. Whoever can post an alert can pass a drill. So each form over HTTP has a secret, and it comes from the environment: the sender
   signs with it, or says it in `Authorization: Bearer`, or has it as the last part of the path (`auth: path`).
3. What has no labels (a message, an incident's title, a line of a log) is read by a pattern that stands here: a regular expression
   with groups `rule` and `severity`, and, where the text has them, `state`, `key`, `run` and `window`. What the pattern has no
   group for stands here as well. Text that no pattern matches is no alert.
"""

import re
from typing import Annotated, Literal

import msgspec

__all__ = [
    "Alertmanager",
    "Detectors",
    "File",
    "Grafana",
    "Log",
    "PagerDuty",
    "Pinned",
    "Receiver",
    "Slack",
    "Standard",
    "parse_listen",
    "web_receivers",
]

GROUPS = frozenset({"rule", "severity", "state", "key", "run", "window"})
MOST_RECEIVERS = 32

Name = Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")]
Path = Annotated[str, msgspec.Meta(pattern=r"\A(/[A-Za-z0-9_.~-]{1,100}){1,8}\Z")]
Variable = Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z_][A-Za-z0-9_]{0,99}\Z")]
Text = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Expression = Annotated[str, msgspec.Meta(min_length=1, max_length=2_000)]
Auth = Literal["bearer", "path"]


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="form"):
    name: Name


class Pinned(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How rule and severity are found in text."""

    pattern: Expression
    rule: Text | None = None
    """Where the pattern has no group of that name."""
    severity: Text | None = None
    resolved: Expression | None = None
    """Text that matches this as well says that the alert is over; so does a group `state` that says resolved, ok or closed."""

    def __post_init__(self) -> None:
        groups = _groups("pattern", self.pattern)
        unknown = sorted(groups - GROUPS)
        if unknown:
            raise ValueError(f"pattern: group {unknown[0]!r}; wanted some of {', '.join(sorted(GROUPS))}")
        for name, said in (("rule", self.rule), ("severity", self.severity)):
            if (name in groups) is (said is not None):
                raise ValueError(f"{name}: either a group of the pattern or the word itself, one of both")
        if self.resolved is not None:
            _groups("resolved", self.resolved)


def _groups(name: str, expression: str) -> set[str]:
    try:
        return set(re.compile(expression).groupindex)
    except re.error as error:
        raise ValueError(f"{name}: no regular expression: {error}") from None


class Alertmanager(_Part, frozen=True, kw_only=True, tag="alertmanager"):
    """A `webhook_config` of Alertmanager. It signs nothing: the secret is in `http_config.authorization`, or in the URL."""

    path: Path
    secret_env: Variable
    auth: Auth = "bearer"
    severity_label: Text = "severity"


class Grafana(_Part, frozen=True, kw_only=True, tag="grafana"):
    """A contact point of Grafana's kind `webhook`, with authorization header credentials."""

    path: Path
    secret_env: Variable
    auth: Auth = "bearer"
    severity_label: Text = "severity"


class PagerDuty(_Part, frozen=True, kw_only=True, tag="pagerduty"):
    """A webhook subscription (v3) of PagerDuty, signed. Acknowledgements come from it; incidents are alerts with `find`."""

    path: Path
    secret_env: Variable
    find: Pinned | None = None
    """Looked for in an incident's title. `severity: priority` takes the incident's priority for it."""


class Slack(_Part, frozen=True, kw_only=True, tag="slack"):
    """Whatever posts to an incoming webhook of Slack, pointed here. Its secret is the path's last part, as Slack has it."""

    path: Path
    secret_env: Variable
    auth: Auth = "path"
    find: Pinned


class Standard(_Part, frozen=True, kw_only=True, tag="standard"):
    """A webhook of your own, signed as Standard Webhooks says: `{type, rule, severity, state, key, ...}`."""

    path: Path
    secret_env: Variable


class Log(_Part, frozen=True, kw_only=True, tag="log"):
    """Lines that are added to a file, wherever it moves."""

    file: Text
    find: Pinned


class File(_Part, frozen=True, kw_only=True, tag="file"):
    """A file that appears (and is over when it is gone), or that changes."""

    file: Text
    on: Literal["appears", "changes"] = "appears"
    rule: Text
    severity: Text


Receiver = Alertmanager | Grafana | PagerDuty | Slack | Standard | Log | File
Web = Alertmanager | Grafana | PagerDuty | Slack | Standard


class Detectors(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the drill listens on, and to whom."""

    listen: Annotated[str, msgspec.Meta(pattern=r"\A(\[[0-9A-Fa-f:]+\]|[A-Za-z0-9.-]+):[0-9]{1,5}\Z")] = (
        "127.0.0.1:8060"
    )
    """An address of this machine; elsewhere than loopback where the senders are, and then it is named here."""
    receivers: Annotated[tuple[Receiver, ...], msgspec.Meta(min_length=1, max_length=MOST_RECEIVERS)]

    def __post_init__(self) -> None:
        if parse_listen(self.listen)[1] > 65_535:
            raise ValueError("listen: a port of 0 to 65535")
        names = [one.name for one in self.receivers]
        paths = [one.path for one in web_receivers(self.receivers)]
        for what, found in (("name", names), ("path", paths)):
            twice = next((one for one in found if found.count(one) > 1), None)
            if twice is not None:
                raise ValueError(f"receivers: two of {what} {twice!r}")
        below = next((one for one in paths for other in paths if one != other and one.startswith(f"{other}/")), None)
        if below is not None:
            raise ValueError(f"receivers: the path {below!r} lies below another's")


def web_receivers(receivers: tuple[Receiver, ...]) -> list[Web]:
    """Those that listen over HTTP."""
    return [one for one in receivers if not isinstance(one, Log | File)]


def parse_listen(listen: str) -> tuple[str, int]:
    """Give host and port of `host:port`."""
    host, _, port = listen.rpartition(":")
    return host.strip("[]"), int(port)
