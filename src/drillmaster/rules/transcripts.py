"""The law of transcripts: what a line is, when a mission's transcript is whole, and which ones people read.

1. A transcript lies in files of one JSON object a line (NDJSON), UTF-8, at most `LINE_CAP_BYTES`, one file a writer. Each line
   says `t` (RFC 3339 with a zone), `mission`, `run`, `seq` and `kind`, one of `KINDS`. Other fields are kept and no law's.
2. What one writer does for a mission from taking it to letting go is a *part*: its lines count up in `seq` from 0 without a
   gap, the first is `started`, the last `ended`, which says how many lines there are (`lines`, itself included) and whether
   all went well (`ok`). Where a writer works on one mission twice at once, `part` tells the two apart.
3. What does not fit a line goes on in the next one of the same kind: each but the last has `more`, true.
4. A mission's transcript is complete when all of its lines are of this run, each part is whole, there is a `user` line for each
   step that the driver sent, and no more parts than steps. A step that was never sent leaves no line.
5. A line that is torn, foreign, too long or says a thing twice belongs to nobody: the part that it is missing from has a gap.
   `lost` is a line of the writer itself: so many of its lines never came to the disk.
6. Between the agent and its models a proxy may record as well: its parts begin with entry `proxy`, must be whole like all others,
   and count for no step. A mission of which nothing but they lie there is complete as far as a proxy sees, and is counted so
   (`by_proxy`). A part that a proxy knows only by its trace is called `t.TRACE`, and is the mission's that was started with it.
7. A draw of n out of the missions is the n whose SHA-256 of `SEED:MISSION`, both as UTF-8, is the smallest as hexadecimal
   text; it does not depend on their order, and any language can repeat it.
"""

import hashlib
import heapq
import re
from collections.abc import Iterable, Iterator, Mapping
from json import JSONDecodeError, JSONDecoder
from typing import Any, Literal

import msgspec

__all__ = [
    "KINDS",
    "LINE_CAP_BYTES",
    "MISSION",
    "Census",
    "Collected",
    "Lacking",
    "Part",
    "Spoilt",
    "Told",
    "Why",
    "census",
    "collect",
    "draw",
    "is_line",
    "lines_of",
]

LINE_CAP_BYTES = 65_536
"""The longest line, its newline included."""
KINDS = frozenset(
    {"started", "user", "model_request", "model_response", "tool_call", "tool_result", "answer", "ended", "lost"}
)
MISSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}", re.ASCII)
"""What a mission's id looks like."""
FIRST_SPOILT = 20

Why = Literal["missing", "no-end", "gap", "count", "another-run", "too-few", "twice"]
SAID: dict[Why, str] = {
    "missing": "no line of it",
    "no-end": "a part that was begun and never ended",
    "gap": "lines that are missing, or come twice",
    "count": "an end that counts other lines than there are",
    "another-run": "lines of another run",
    "too-few": "fewer messages of the user than the driver sent",
    "twice": "more parts than the driver sent steps",
}

_ODD = re.compile(rb'"[ \t\r]+:|\\u00').search  # where a name may be spelled in another way
_T = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)", re.ASCII)


class Part(msgspec.Struct, kw_only=True):
    """One part as far as it was read: `lines` of it from `line` on, which begins at byte `offset` of `file`."""

    mission: str
    part: str
    file: str
    line: int
    offset: int
    last_line: int = 0
    lines: int = 0
    users: int = 0
    proxy: bool = False
    """Whether a proxy recorded it, between the agent and a model."""
    ok: bool | None = None
    ended: bool = False
    more: str = ""
    """The kind that has to go on in the next line; "": none."""
    why: Why | None = None
    """What was found wrong first."""


class Spoilt(msgspec.Struct, frozen=True):
    """A line that is none, and why."""

    file: str
    line: int
    why: str


class Collected(msgspec.Struct, kw_only=True):
    """All parts of some files, by mission, and what else was in them."""

    parts: dict[str, list[Part]]
    files: int = 0
    lines: int = 0
    spoilt: int = 0
    first_spoilt: list[Spoilt] = []
    lost: int = 0
    """Lines that their writers could not write, as they say themselves."""


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """One mission of the run and its transcript. `why` None: it is complete."""

    mission: str
    steps: int
    parts: int
    users: int
    lines: int
    ok: bool
    """Whether each part says so itself."""
    why: Why | None
    file: str
    line: int
    """Where it begins, or where it breaks off; "" and 0 where there is none."""
    by_proxy: bool = False
    """Whether nothing but a proxy's record of its models lies there."""


class Lacking(msgspec.Struct, frozen=True):
    """A mission without a complete transcript: why, and the line to look at."""

    mission: str
    why: Why
    file: str
    line: int

    @property
    def said(self) -> str:
        return SAID[self.why]


class Census(msgspec.Struct, frozen=True, kw_only=True):
    """Every mission that the run started and sent, against the transcripts that lie there."""

    run: str
    missions: tuple[Told, ...]
    """Those with at least one step sent, in the order of their start."""
    unsent: int
    """Missions that were started and never got a step onto the wire: nobody could write of them."""
    strangers: int
    """Missions with transcripts here that this run never started."""
    first_strangers: tuple[str, ...]
    files: int
    lines: int
    spoilt: int
    first_spoilt: tuple[Spoilt, ...]
    lost: int

    @property
    def expected(self) -> int:
        return len(self.missions)

    @property
    def complete(self) -> int:
        return sum(told.why is None for told in self.missions)

    @property
    def by_proxy(self) -> int:
        return sum(told.by_proxy for told in self.missions)

    @property
    def lacking(self) -> tuple[Lacking, ...]:
        return tuple(Lacking(one.mission, one.why, one.file, one.line) for one in self.missions if one.why is not None)

    @property
    def whys(self) -> dict[Why, int]:
        """How often each is the reason, the most frequent first."""
        counted: dict[Why, int] = {}
        for told in self.missions:
            if told.why is not None:
                counted[told.why] = counted.get(told.why, 0) + 1
        return dict(sorted(counted.items(), key=lambda pair: -pair[1]))

    def draw(self, seed: int | str, count: int) -> tuple[str, ...]:
        """The missions for people to read, lacking ones among them: who draws one that is missing has found something."""
        return draw((told.mission for told in self.missions), seed, count)


class _Head(msgspec.Struct, gc=False):
    """What the law reads of a line; the rest is skipped."""

    kind: str
    t: str
    mission: str = ""
    run: str = ""
    seq: int = -1
    part: str = ""
    lines: int = -1
    ok: bool | None = None
    more: bool = False
    entry: str = ""


class _Twice(Exception):
    """A name stands twice in one object."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _Twice
    return found


_decode = msgspec.json.Decoder(_Head).decode
_CAREFUL = JSONDecoder(object_pairs_hook=_once)


def collect(files: Iterable[tuple[str, Iterable[bytes]]], *, run: str) -> Collected:
    """Read files of transcripts, each a name and its bytes in pieces of any size. No bytes raise; memory is by part."""
    found = Collected(parts={}, first_spoilt=[])
    for file, chunks in files:
        found.files += 1
        _read(found, file, chunks, run)
    return found


def _read(found: Collected, file: str, chunks: Iterable[bytes], run: str) -> None:
    under_way: dict[tuple[str, str], Part] = {}
    known = found.parts
    second = ""  # the last one that was looked at: lines of one second share it
    for number, offset, line in lines_of(chunks):
        if line is None or len(line) >= LINE_CAP_BYTES:
            _spoil(found, file, number, f"longer than {LINE_CAP_BYTES:,} bytes")
            continue
        if not line or line.isspace():
            continue
        found.lines += 1
        try:
            head = _decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            _spoil(found, file, number, "no JSON object with the fields of a transcript, or half of one")
            continue
        t = head.t
        if not (t[:20] == second and t[-1:] == "Z" and t[20:-1].isdecimal() and t.isascii()):
            if _T.fullmatch(t) is None:
                _spoil(found, file, number, 'no "t" with a zone')
                continue
            second = t[:20] if t[19:20] == "." else ""
        # A name within a string has a backslash before its quote; one within another object sends the line the careful way.
        count = line.count
        if (
            count(b'"mission":') > 1
            or count(b'"seq":') > 1
            or count(b'"run":') > 1
            or count(b'"kind":') > 1
            or count(b'"part":') > 1
            or count(b'"lines":') > 1
            or count(b'"ok":') > 1
            or count(b'"more":') > 1
            or count(b'"t":') > 1
            or _ODD(line)
        ) and _says_twice(line):
            _spoil(found, file, number, "a name a second time")
        elif head.kind not in KINDS:
            _spoil(found, file, number, 'no "kind" of a transcript')
        elif head.kind == "lost":
            found.lost += max(0, head.lines)
        elif (
            head.seq < 0
            or len(head.part) > 64
            or (head.mission not in known and MISSION.fullmatch(head.mission) is None)
        ):
            _spoil(found, file, number, 'no "mission" or "seq" that can be one')
        else:
            _place(found, under_way, head, run, file, number, offset)


def is_line(line: bytes) -> bool:
    """Whether a line is one of a mission's transcript by rule 1."""
    one = collect([("", (line, b"\n"))], run="")
    return bool(one.parts)


def _spoil(found: Collected, file: str, line: int, why: str) -> None:
    found.spoilt += 1
    if len(found.first_spoilt) < FIRST_SPOILT:
        found.first_spoilt.append(Spoilt(file, line, why))


def _says_twice(line: bytes) -> bool:
    try:
        _CAREFUL.decode(line.decode())
    except _Twice:
        return True
    except (JSONDecodeError, UnicodeDecodeError, RecursionError, ValueError):
        return True  # JSON to one reader and not to another
    return False


def _place(
    found: Collected,
    under_way: dict[tuple[str, str], Part],
    head: _Head,
    run: str,
    file: str,
    line: int,
    offset: int,
) -> None:
    key = (head.mission, head.part)
    part = under_way.get(key)
    if part is None or (head.kind == "started" and head.seq == 0):
        # Of a part that begins without its start the first line is what was lost.
        part = under_way[key] = Part(mission=head.mission, part=head.part, file=file, line=line, offset=offset)
        found.parts.setdefault(head.mission, []).append(part)
    # `started` stands first and nowhere else, nothing stands behind the end, and what goes on goes on with its own kind.
    fits = head.seq == part.lines and (head.kind == "started") == (head.seq == 0) and not part.ended
    if not fits or (part.more and part.more != head.kind):
        part.why = part.why or "gap"
    if head.kind == "started":
        part.proxy = head.entry == "proxy"
    if head.run != run:
        part.why = part.why or "another-run"
    if head.kind == "user" and part.more != "user":
        part.users += 1
    part.more = head.kind if head.more else ""
    part.lines += 1
    part.last_line = line
    if head.kind == "ended":
        part.ended, part.ok = True, head.ok
        if head.lines != part.lines or head.ok is None or head.more:
            part.why = part.why or "count"


def lines_of(chunks: Iterable[bytes]) -> Iterator[tuple[int, int, bytes | None]]:
    """Yield number, offset and bytes of each line; None for one over the cap, of which no more than the cap is held."""
    number, at, held = 1, 0, b""
    skipped = 0
    for chunk in chunks:
        begin = 0
        while (end := chunk.find(b"\n", begin)) >= 0:
            if skipped:
                yield number, at, None
                at += skipped + len(held) + end - begin + 1
                skipped = 0
            else:
                line = held + chunk[begin:end] if held else chunk[begin:end]
                yield number, at, line
                at += len(line) + 1
            held, begin = b"", end + 1
            number += 1
        held = held + chunk[begin:] if held else chunk[begin:]
        if len(held) >= LINE_CAP_BYTES:
            skipped, held = skipped + len(held), b""
    if skipped:
        yield number, at, None
    elif held:
        yield number, at, held


def census(
    found: Collected, started: Mapping[str, int], *, run: str, traces: Mapping[str, str] | None = None
) -> Census:
    """Hold the transcripts against the missions that were started, each with the number of its steps that were sent.

    `traces`: which mission was started with which trace id (rule 6).
    """
    for trace, mission in (traces or {}).items():
        named = found.parts.pop(f"t.{trace}", None)
        if named is not None:
            found.parts.setdefault(mission, []).extend(named)
    told = tuple(_told(mission, steps, found.parts.get(mission, [])) for mission, steps in started.items() if steps)
    strangers = [mission for mission in found.parts if not started.get(mission)]
    return Census(
        run=run,
        missions=told,
        unsent=sum(steps == 0 for steps in started.values()),
        strangers=len(strangers),
        first_strangers=tuple(strangers[:FIRST_SPOILT]),
        files=found.files,
        lines=found.lines,
        spoilt=found.spoilt,
        first_spoilt=tuple(found.first_spoilt),
        lost=found.lost,
    )


def _told(mission: str, steps: int, parts: list[Part]) -> Told:
    first = parts[0] if parts else None
    why: Why | None = "missing" if first is None else None
    file, line = ("", 0) if first is None else (first.file, first.line)
    for part in parts:
        wrong = part.why or (None if part.ended else "no-end")
        if wrong is not None:
            why, file, line = wrong, part.file, part.last_line
            break
    own = [part for part in parts if not part.proxy]
    users = sum(part.users for part in own)
    if why is None and own:
        why = "too-few" if users < steps else "twice" if len(own) > steps else None
    return Told(
        mission=mission,
        steps=steps,
        parts=len(parts),
        users=users,
        lines=sum(part.lines for part in parts),
        ok=bool(parts) and all(part.ok is True for part in own or parts),
        why=why,
        file=file,
        line=line,
        by_proxy=bool(parts) and not own,
    )


def draw(missions: Iterable[str], seed: int | str, count: int) -> tuple[str, ...]:
    """Draw `count` missions, or all where there are no more (rule 7), in the order of the draw."""

    def place(mission: str) -> str:
        return hashlib.sha256(f"{seed}:{mission}".encode()).hexdigest()

    return tuple(heapq.nsmallest(count, set(missions), key=place))
