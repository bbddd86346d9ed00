"""What a flag server is told at its start."""

from typing import Literal

import msgspec

__all__ = ["Settings"]


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How one flag server runs; `python -m drillmaster.flags` reads it as one JSON object in its argument. No secret is in it."""

    registry: str
    """Path of flags.yaml."""
    host: str = "127.0.0.1"
    port: int = 8070
    """0: any free port; `flags_started` and `GET /state` say which."""
    listen_fd: int | None = None
    """An inherited, bound and listening socket. It wins over `host` and `port`, and outlives the server in its owner."""
    control_path: str | None = None
    """Unix socket, made with mode 0600; only this uid and root are heard."""
    lead_token_file: str | None = None
    """Its first line switches chaos flags. None: nobody does over HTTP."""
    kill_token_file: str | None = None
    """Its first line kills and restores. None: nobody does."""
    read_token_file: str | None = None
    """Its first line reads, from elsewhere than loopback."""
    kills_path: str | None = None
    """Where kills lie. None: a kill is refused, as it would not outlive the server."""
    flagd_path: str | None = None
    """A flagd file that is kept up to date."""
    events: str | None = None
    """The file of evidence; None: none is kept."""
    mono0_ns: int = 0
    """The run's zero on CLOCK_MONOTONIC."""
    seed: int = 1
    lease_s: float = 2.0
    """How long a worker that hears nothing more keeps a chaos flag on."""
    lost_s: float = 3.0
    """After so much silence a worker is said to be lost."""
    owner_pid: int | None = None
    """Who started us. Once it is gone chaos goes off, and the server ends when no worker asked for `orphan_grace_s`."""
    orphan_grace_s: float = 600.0
    say: Literal["quiet", "lines"] = "quiet"
    """Whether each switching is told on stderr, for a person at a terminal."""
