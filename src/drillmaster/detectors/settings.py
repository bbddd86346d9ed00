"""What a listener is told at its start, and the secrets that it finds in its environment."""

import hmac
from collections.abc import Mapping

import msgspec

from drillmaster.errors import Problem
from drillmaster.friday.detectors import Detectors, PagerDuty, Receiver, Standard, parse_listen, web_receivers
from drillmaster.rules.webhook_schemes import Key, read_key

__all__ = ["Secret", "Settings", "of_section", "secrets_of"]

LEAST_SECRET_CHARS = 16


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How one listener runs; `python -m drillmaster.detectors` reads it as one JSON object in its argument. No secret is in it."""

    receivers: tuple[Receiver, ...]
    host: str = "127.0.0.1"
    port: int = 8060
    """0: any free port; `detectors_started` and `GET /state` say which."""
    listen_fd: int | None = None
    """An inherited, bound and listening socket. It wins over `host` and `port`, and outlives the listener in its owner."""
    control_path: str | None = None
    """Unix socket, made with mode 0600; only this uid and root are heard."""
    events: str | None = None
    """The file of evidence; None: none is kept."""
    mono0_ns: int = 0
    """The run's zero on CLOCK_MONOTONIC."""
    folder: str = "."
    """What the paths of logs and files count from."""
    owner_pid: int | None = None
    """Who started us; the listener ends when it is gone."""


def of_section(
    section: Detectors,
    *,
    events: str | None,
    mono0_ns: int,
    control_path: str | None,
    folder: str,
    listen_fd: int | None = None,
    owner_pid: int | None = None,
) -> Settings:
    """Make the settings of a plan's section."""
    host, port = parse_listen(section.listen)
    return Settings(
        receivers=section.receivers,
        host=host,
        port=port,
        listen_fd=listen_fd,
        control_path=control_path,
        events=events,
        mono0_ns=mono0_ns,
        folder=folder,
        owner_pid=owner_pid,
    )


class Secret:
    """What one receiver's sender has to know. It is never shown."""

    __slots__ = ("_said", "key")

    def __init__(self, said: bytes, key: Key | None = None) -> None:
        self._said = said
        self.key = key

    def __repr__(self) -> str:
        return "Secret()"

    def is_(self, found: bytes) -> bool:
        """Whether it is this one, in constant time."""
        return hmac.compare_digest(self._said, found)


def secrets_of(receivers: tuple[Receiver, ...], environ: Mapping[str, str]) -> dict[str, Secret]:
    """Find each receiver's secret, by its name. Raises Problem, which names the variable and never what is in it."""
    found: dict[str, Secret] = {}
    for one in web_receivers(receivers):
        place = f"detectors: {one.name}: {one.secret_env}"
        text = environ.get(one.secret_env, "").strip()
        if isinstance(one, PagerDuty | Standard):
            found[one.name] = Secret(b"", read_key(text, standard=isinstance(one, Standard), place=place))
            continue
        usable = text.isascii() and all(char.isalnum() or char in "-_.~" for char in text)
        if len(text) < LEAST_SECRET_CHARS or not usable:
            raise Problem(
                place,
                found="nothing" if not text else "a secret that is too short or has other characters",
                wanted=f"{LEAST_SECRET_CHARS} or more of letters, digits, - _ . ~ in the environment",
                remedy=f"export {one.secret_env}=$(openssl rand -hex 24), and give the sender the same",
            )
        found[one.name] = Secret(text.encode())
    return found
