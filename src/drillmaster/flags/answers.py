"""What is answered on the public port: switching with tokens, reading, and OFREP.

1. `POST /enable/NAME` and `/disable/NAME` want the Lead's token, `/kill/CAPABILITY` and `/restore/CAPABILITY` one of their
   own; neither does the other's work. Whoever has none learns nothing, not even which names there are.
2. Reading is free from this machine, and wants a token from elsewhere: the read token, or one of the others.
3. OFREP is the OpenFeature Remote Evaluation Protocol, `service/openapi.yaml` 0.1.0. A single evaluation is one call, and
   counted as one: what it answers says whether that call is met. A bulk evaluation counts nothing, so that its ETag can
   stand for it: it says what is on, and `metadata` whom it meets. A value of true means that the flag is at work: of a
   capability, that it is killed.
"""

import hmac
import math
import time
from collections.abc import Callable, Mapping
from typing import Annotated, Any
from urllib.parse import parse_qsl, unquote

import msgspec

from drillmaster.asked import is_address
from drillmaster.errors import Problem
from drillmaster.flags.board import Board, Conflict
from drillmaster.flags.doors import Asked, Client, Reply, said
from drillmaster.flags.flagd import flagd
from drillmaster.flags.roster import Poll, Roster
from drillmaster.friday.flags import Count, Share, Switched, plain, unknown_flag
from drillmaster.screen import screen_text
from drillmaster.strict import load_as

__all__ = ["Access", "Answers", "Disable", "Enable", "Lifts", "Orders", "switched"]

MAX_WAIT_S = 30.0
_OFREP = "/ofrep/v1/evaluate/flags"
_OF_A_PAGE = frozenset({b"cross-site", b"same-site", b"same-origin"})
_By = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens; None: nobody has it."""

    lead: bytes | None = None
    kill: bytes | None = None
    read: bytes | None = None

    def seat(self, token: bytes) -> str | None:
        """Whose token this is. Compares all of them, in constant time each."""
        found = None
        for seat in ("read", "kill", "lead"):
            own = getattr(self, seat)
            if own is not None and hmac.compare_digest(own, token):
                found = seat
        return found


class Enable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """May be left out: then the registry says whom the flag meets, and it is on until its auto-off."""

    share: Share | None = None
    first: Count | None = None
    every: Count | None = None
    params: dict[str, Any] = {}
    ttl_s: Annotated[float, msgspec.Meta(gt=0, le=3_600)] | None = None
    by: _By = "lead"


class Disable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    by: _By = "lead"


class Lifts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of a kill and its end."""

    by: _By = "whoever has the token"
    why: Annotated[str, msgspec.Meta(max_length=500)] = ""
    wait_s: Annotated[float, msgspec.Meta(ge=0, le=MAX_WAIT_S)] = 0.0
    """How long to wait until every worker that is known holds it."""
    drain: bool = False
    """Whether to wait for calls that were under way, too."""


class Orders:
    """What the server does for those who may switch; each gives an answer. Raises Conflict, Problem, ValueError, OSError."""

    def enable(self, name: str, order: Enable) -> dict[str, Any]:
        raise NotImplementedError

    def disable(self, name: str, order: Disable) -> dict[str, Any]:
        raise NotImplementedError

    def kill(self, name: str, order: Lifts, client: Client) -> Reply | None:
        raise NotImplementedError

    def restore(self, name: str, order: Lifts, client: Client) -> Reply | None:
        raise NotImplementedError

    def hold(self, client: Client, revision: str, wait_s: float, make: Callable[[float], Reply]) -> Reply | None:
        """Answer with `make(seconds held)` once the revision is another one, or the wait is over."""
        raise NotImplementedError

    def heard(self) -> None:
        """A worker said what it holds."""
        raise NotImplementedError

    def failed(self, error: Exception) -> None:
        """An error of ours."""
        raise NotImplementedError


class _Context(msgspec.Struct, frozen=True):
    """A request of OFREP. Whatever else SDKs send along is no concern of ours."""

    context: dict[str, Any] | None = None


_ofrep_body = msgspec.json.Decoder(_Context).decode
_encode = msgspec.json.Encoder().encode


class Answers:
    """The public port."""

    def __init__(
        self,
        board: Board,
        roster: Roster,
        access: Access,
        orders: Orders,
        *,
        lease_s: float,
        seed: int,
        tokens: Mapping[str, str] | None = None,
    ) -> None:
        """`tokens`: seat -> the file where its token lies."""
        self._tokens = dict(tokens or {})
        self._board = board
        self._roster = roster
        self._access = access
        self._orders = orders
        self._lease_s = lease_s
        self._seed = seed
        self._single: dict[tuple[str, bool], Reply] = {}
        self._bulk: Reply | None = None
        self._listing: Reply | None = None
        self.evaluations = 0
        self.refused = 0

    def changed(self) -> None:
        """Forget what was made for the last revision."""
        self._single.clear()
        self._bulk = self._listing = None

    def serve(self, client: Client, asked: Asked) -> Reply | None:
        """Answer one request; whatever it is, with an answer."""
        try:
            return self._route(client, asked)
        except Conflict as conflict:
            return said(409, {"error": str(conflict)})
        except Problem as problem:
            told = {"place": problem.place, "found": problem.found, "wanted": problem.wanted, "remedy": problem.remedy}
            status = 404 if problem.found.startswith(("flag ", "capability ")) else 400
            return said(status, {"error": str(problem), **told})
        except (msgspec.DecodeError, ValueError) as error:
            return said(400, {"error": str(error)})
        except OSError as error:
            return said(507, {"error": f"not written, so not done: {error.strerror or error}"})
        except Exception as error:  # noqa: BLE001 - our own mistake is a 500 for this one, and told
            self._orders.failed(error)
            return said(500, {"error": "a mistake of the server's own"})

    def _route(self, client: Client, asked: Asked) -> Reply | None:
        path = asked.path
        seat, refusal = self._who(asked)
        if refusal is not None:
            self.refused += 1
            return refusal
        if path.startswith(_OFREP):
            return self._ofrep(path, asked)
        match asked.method, path:
            case "POST", "/poll":
                return self._poll(client, asked)
            case "GET" | "HEAD", "/flags":
                return self._flags(client, asked)
            case "GET" | "HEAD", "/flagd":
                self._board.expire()
                return said(200, flagd(self._board))
            case "GET" | "HEAD", "/workers":
                return said(200, self.workers())
            case "GET" | "HEAD", "/healthz":
                told: dict[str, Any] = {"ok": True, "revision": self._board.revision}
                if asked.loopback:
                    told["tokens"] = self._tokens  # where they lie: whoever may read them is who may switch
                return said(200, told)
            case "GET" | "HEAD", "/ofrep/v1/configuration":
                return self._configuration(asked)
        verb, _, name = path[1:].partition("/")
        if verb in ("enable", "disable", "kill", "restore"):
            if asked.method != "POST":
                return said(405, {"error": f"POST /{verb}/NAME"})
            return self._switch(client, verb, unquote(name), asked, seat)
        known = (
            "POST /enable/NAME /disable/NAME /kill/CAPABILITY /restore/CAPABILITY, GET /flags, OFREP under /ofrep/v1"
        )
        return said(404, {"error": f"no such path; {known}"})

    def _who(self, asked: Asked) -> tuple[str | None, Reply | None]:
        """Who asks, and what they are told where they may not even read."""
        named = asked.named
        if b"origin" in named or named.get(b"sec-fetch-site", b"") in _OF_A_PAGE:
            return None, said(403, {"error": "a page in a browser is no worker"})
        given = named.get(b"authorization")
        seat = None
        if given is not None or b"x-api-key" in named:
            if given is None:
                token = named[b"x-api-key"]
            else:
                scheme, _, token = given.partition(b" ")
                token = token.strip() if scheme.lower() == b"bearer" else b""
            seat = self._access.seat(token)
            if seat is None:
                return None, said(
                    401, {"error": "a token of nobody here: send Authorization: Bearer and the token file's line"}
                )
        elif not asked.loopback and asked.path != "/healthz":
            return None, said(
                401, {"error": "reading from elsewhere wants a token: Authorization: Bearer and the read token"}
            )
        elif asked.host is not None and not is_address(asked.host):
            return None, said(421, {"error": "called by a name without a token: call by address, or send a token"})
        if asked.body and named.get(b"content-type", b"").partition(b";")[0].strip().lower() != b"application/json":
            return None, said(415, {"error": "a body that is not sent as content-type: application/json"})
        return seat, None

    # Switching

    def _switch(self, client: Client, verb: str, name: str, asked: Asked, seat: str | None) -> Reply | None:
        wanted = "lead" if verb in ("enable", "disable") else "kill"
        if seat != wanted:
            self.refused += 1
            word = "the Lead's token" if wanted == "lead" else "the kill token"
            if getattr(self._access, wanted) is None:
                return said(403, {"error": f"nobody may: this server was started without {word}"})
            if seat is None:
                return said(401, {"error": f"/{verb} wants {word}: Authorization: Bearer and the token file's line"})
            return said(403, {"error": f"/{verb} wants {word}; this one is another"})
        body = asked.body or b"{}"
        if verb == "enable":
            enable = load_as(body, Enable, place="order", fmt="json")
            return said(200, self._orders.enable(name, msgspec.structs.replace(enable, by=screen_text(enable.by))))
        if verb == "disable":
            disable = load_as(body, Disable, place="order", fmt="json")
            return said(200, self._orders.disable(name, msgspec.structs.replace(disable, by=screen_text(disable.by))))
        order = load_as(body, Lifts, place="order", fmt="json")
        # What people write is told to readers, and lies in the file of kills.
        order = msgspec.structs.replace(order, by=screen_text(order.by), why=screen_text(order.why))
        return (self._orders.kill if verb == "kill" else self._orders.restore)(name, order, client)

    # Reading

    def _poll(self, client: Client, asked: Asked) -> Reply | None:
        poll = load_as(asked.body, Poll, place="poll", fmt="json")
        board = self._board
        for name in poll.flags:
            if name not in board.flags:
                raise unknown_flag(name, board.flags, place="poll: /flags")
        board.expire()
        # A count of a flag that is registered no more keeps no worker from its kills.
        poll = msgspec.structs.replace(poll, met=tuple(met for met in poll.met if met.flag in board.flags))
        number = board.number(poll.held)
        self._roster.heard(poll, time.monotonic_ns(), None if number is None or number > board.count else number)
        self._orders.heard()
        return self._orders.hold(
            client, poll.held, poll.wait_s, lambda held_s: self.poll_reply(held_s, first=not poll.held)
        )

    def poll_reply(self, held_s: float, *, first: bool = False) -> Reply:
        """What a worker goes by."""
        board = self._board
        told: dict[str, Any] = {
            "revision": board.revision,
            "lease_s": self._lease_s,
            "held_s": round(held_s, 6),
            "seed": self._seed,
            "on": [{**on.told(), "left_s": round(board.left_s(on), 3)} for on in board.on.values()],
            "killed": sorted(board.killed),
        }
        if first:
            told["known"] = {flag.name: flag.kind for flag in board.registry.flags}
        return said(200, told)

    def _flags(self, client: Client, asked: Asked) -> Reply | None:
        board = self._board
        board.expire()
        wait_s = 0.0
        for name, value in parse_qsl(asked.query, keep_blank_values=True):
            if name != "wait_s":
                raise ValueError(f"?{name[:40]}: wanted wait_s, seconds from 0 to {MAX_WAIT_S:g}")
            wait_s = float(value)
            if not 0 <= wait_s <= MAX_WAIT_S or not math.isfinite(wait_s):
                raise ValueError(f"wait_s: wanted seconds from 0 to {MAX_WAIT_S:g}")
        known = self._knows(asked, board.revision)
        if known and wait_s:
            return self._orders.hold(client, board.revision, wait_s, lambda held_s: self._unless_known(asked))
        return self._unless_known(asked)

    def _unless_known(self, asked: Asked) -> Reply:
        listing = self.listing()
        return Reply(304, b"", listing.etag) if self._knows(asked, self._board.revision) else listing

    def listing(self) -> Reply:
        """All flags with their state."""
        board = self._board
        if self._listing is None:
            rows = []
            for flag in board.registry.flags:
                on = board.on.get(flag.name)
                row: dict[str, Any] = {"name": flag.name, "state": board.state(flag.name), "kind": flag.kind}
                row |= {
                    "owner": flag.owner,
                    "purpose": flag.purpose,
                    "deadline": flag.deadline,
                    "auto_off_s": flag.auto_off_s,
                }
                row["aim"] = (on.aim if on is not None else flag.aim).words
                if on is not None:
                    row |= {"window": on.window, "by": on.by, "params": plain(on.shape)}
                if flag.name in board.killed:
                    row["by"] = board.killed[flag.name]
                rows.append(row)
            content = {
                "revision": board.revision,
                "service": board.registry.service,
                "lease_s": self._lease_s,
                "flags": rows,
            }
            self._listing = Reply(200, _encode(content), f'"{board.revision}"')
        return self._listing

    def workers(self) -> dict[str, Any]:
        """Who asks, and what each holds."""
        now_ns = time.monotonic_ns()
        return {
            "revision": self._board.revision,
            "workers": [
                {
                    "worker": one.name,
                    "pid": one.pid,
                    "held": one.held,
                    "silent_s": round((now_ns - one.seen_ns) / 1e9, 3),
                    "lost": one.lost,
                    "running": one.running,
                    "met": [{"flag": flag, "window": window, "n": n} for (flag, window), (n, _) in one.met.items()],
                }
                for one in self._roster.workers.values()
            ],
        }

    def _knows(self, asked: Asked, revision: str) -> bool:
        """Whether If-None-Match names this revision (RFC 9110, 13.1.2: weak comparison)."""
        given = asked.named.get(b"if-none-match")
        if given is None:
            return False
        tags = [tag.strip().removeprefix("W/") for tag in given.decode("latin-1").split(",")]
        return "*" in tags or f'"{revision}"' in tags

    # OFREP

    def _ofrep(self, path: str, asked: Asked) -> Reply:
        rest = path[len(_OFREP) :]
        if rest and rest[0] != "/":
            return said(404, {"errorDetails": "no such path"})
        key = unquote(rest[1:])
        if asked.method != "POST":
            return said(405, {"errorDetails": f"POST {_OFREP}[/KEY]"})
        shown = {"key": key} if key else {}
        try:
            body = _ofrep_body(asked.body) if asked.body else _Context()
        except msgspec.ValidationError as error:
            code = "INVALID_CONTEXT" if "context" in str(error) else "PARSE_ERROR"
            return said(400, {**shown, "errorCode": code, "errorDetails": str(error)})
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            return said(400, {**shown, "errorCode": "PARSE_ERROR", "errorDetails": str(error)[:200]})
        mission = "" if body.context is None else body.context.get("targetingKey", "")
        if not isinstance(mission, str):
            details = "targetingKey: wanted text"
            return said(400, {**shown, "errorCode": "INVALID_CONTEXT", "errorDetails": details})
        self._board.expire()
        if not key:
            return self._ofrep_bulk(asked)
        self.evaluations += 1
        on = self._board.on.get(key)
        met = key in self._board.killed or (on is not None and on.hit(mission))
        known = self._single.get((key, met))
        if known is None:
            if key not in self._board.flags:
                problem = unknown_flag(key[:100], self._board.flags, place="key")
                details = f"found {problem.found}, wanted {problem.wanted}"
                return said(404, {"key": key[:100], "errorCode": "FLAG_NOT_FOUND", "errorDetails": details})
            known = self._single[key, met] = said(200, self._evaluated(key, met=met))
        return known

    def _ofrep_bulk(self, asked: Asked) -> Reply:
        board = self._board
        if self._bulk is None:
            flags = [self._evaluated(flag.name, met=board.state(flag.name) != "off") for flag in board.registry.flags]
            self._bulk = Reply(200, _encode({"flags": flags}), f'"{board.revision}"')
        self.evaluations += 1
        return Reply(304, b"", self._bulk.etag) if self._knows(asked, board.revision) else self._bulk

    def _evaluated(self, key: str, *, met: bool) -> dict[str, Any]:
        board = self._board
        flag, on = board.flags[key], board.on.get(key)
        metadata: dict[str, Any] = {"kind": flag.kind, "owner": flag.owner, "leaseSeconds": self._lease_s}
        split = False
        if on is not None:
            metadata["window"] = on.window
            for name, value in plain(on.shape).items():
                metadata[name] = value if isinstance(value, bool | int | float | str) else _encode(value).decode()
            for name, value in msgspec.structs.asdict(on.aim).items():
                if value is not None:
                    metadata[name] = value
                    split = True
        return {
            "key": key,
            "value": met,
            "variant": "on" if met else "off",
            "reason": "SPLIT" if split and key not in board.killed else "STATIC",
            "metadata": metadata,
        }

    def _configuration(self, asked: Asked) -> Reply:
        content = {
            "name": "drillmaster",
            "capabilities": {
                "cacheInvalidation": {"polling": {"enabled": True, "minPollingIntervalMs": 250}},
                "flagEvaluation": {"supportedTypes": ["boolean"]},
                "caching": {"enabled": False},
            },
        }
        if self._knows(asked, "configuration"):
            return Reply(304, b"", '"configuration"')
        return Reply(200, _encode(content), '"configuration"')


def switched(name: str, order: Enable) -> Switched:
    """What an order of `/enable` wants on."""
    return Switched(flag=name, share=order.share, first=order.first, every=order.every, params=order.params)
