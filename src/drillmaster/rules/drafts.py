"""The law of drafts: which text of a model can be let through, because it can say what was seen and nothing else.

1. No list of forbidden words holds: whoever asks to hold, renew or prolong has another word for it, in any language. So it is
   the other way round. A text is let through where it can be read, whole, as a report by the grammar below, over words that
   are all listed. An order is not found and refused; it cannot be written.
2. A report is a title or a statement. A title is a noun phrase whose last noun is what reports are made of (timeout, error,
   summary, notes); where its first word could be a command ("export"), what happened has to stand in it ("export timeout", and
   not "export results"). A statement has a subject first, and a verb from a list of what is observed, in the past, or a form
   of "be" with a state. Three kinds of nouns say a little more: what reports are made of "shows" and "contains", what has a value
   ("latency", "usage") was one or grew from one to another, and a cause was a thing.
3. What an order needs has no word: no verb in the form that commands (behind "to" there are things alone), no must, may, will,
   should or let, no please, no you, we or I, no if, no until, no more, longer, again or still, no question mark. No noun of a
   right (lock, lease, hold, owner, token, deadline), no adjective that gives one (active, sole, valid, current, next), and no
   verb of keeping, taking, giving or moving one.
4. Some such words stand inside a fixed phrase that means something else: press release, release notes, renewable energy,
   stealth mode, certificate renewal; "extends" behind a noun that cannot hold anything (tax, warranty, schema), and without a
   time. Alone they are unknown.
5. Names are known where the worker itself showed them, where they look like names (a digit, `-`, `_`, `.` or `/` in them),
   and where they hold no word of an order. A number stands before what it counts, before a unit behind a preposition or
   "took" and its like, or behind what is numbered (worker 7). "timeout 900" is no report.
6. Before it is read, a text is brought to compatibility form and small letters. What cannot be seen, turns the direction of
   text, or is no ASCII afterwards refuses it: a letter of another script looks like a word that is listed, and is none.
7. A reason names the rule, never a word of the text.

What passes can still be false. Nobody may act on it: it is for people, and no program reads a number or a name out of it.
"""

import re
import unicodedata
from collections.abc import Collection, Iterator
from functools import cache, lru_cache

__all__ = ["FAULTS", "MAX_TEXT", "fault_of"]

MAX_TEXT = 2_000
MAX_TOKENS = 60
"""Of one sentence."""

FAULTS: dict[str, str] = {
    "text-type": "It is no text.",
    "text-long": "Longer than a draft may be.",
    "text-hidden": "A character that cannot be seen, or that turns the direction of text.",
    "text-letters": "A letter or sign outside ASCII, which may look like one inside.",
    "order": "A word of holding, prolonging, taking or giving up, in whatever sense.",
    "word-unknown": "A word or sign that is not listed, in whatever language.",
    "no-report": "Words that are listed, and no report: no title, no statement of what was seen.",
}


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_EVENT = _words(
    "timeout timeouts time-out time-outs error errors failure failures fault faults outage outages crashes exception "
    "exceptions latency latencies incident incidents refusal refusals denial denials disconnects backlog 4xx 5xx "
    "regression regressions"
)
"""What happened, and nobody does on purpose."""
_TITLE = _words(
    "crash warning warnings alert alerts summary summaries notes log logs report reports trace traces count counts status "
    "symptom symptoms causes reason reasons explanation explanations overview description descriptions timeline timelines "
    "result results case cases finding findings percentile percentiles histogram histograms metric metrics graph graphs "
    "message messages disconnect stacktrace postmortem"
)
_THING = _words(
    "export exports import imports request requests response responses worker workers replica replicas host hosts node "
    "nodes service services server servers client clients provider providers endpoint endpoints model models upstream "
    "downstream gateway gateways proxy proxies database databases store stores queue queues cache caches batch batches "
    "job jobs task tasks stream streams connection connections socket sockets network networks region regions zone zones "
    "shard shards partition partitions page pages file files record records row rows field fields column columns schema "
    "schemas table tables invoice invoices billing payment payments customer customers tenant tenants user users energy "
    "tax taxes mode stealth press system systems thread threads memory disk disks cpu traffic peer peers dns tls "
    "certificate certificates handshake handshakes header headers body bodies payload payloads byte bytes line lines "
    "value values number numbers api apis http https tcp sql sdk sdks pipeline pipelines build builds version versions "
    "agent agents tool tools function functions method methods argument arguments test tests harness lab fixture fixtures "
    "unit units suite suites gate gates source sources marker markers threshold thresholds deadlock deadlocks clock "
    "clocks stakeholder stakeholders household households article articles document documents warranty coverage map maps "
    "class classes list lists item items event events entry entries phase phases step steps part parts port ports attempt "
    "code codes week month day night weekend afternoon morning evening noon midnight ledger sandbox staging script "
    "scripts query queries sample samples probe probes redis postgresql postgres sqlite s3 grpc websocket kafka "
    "kubernetes pod pods container containers deployment deployments mail mails email emails letter letters book books "
    "reminder reminders news weather film films song songs house houses solar wind power plant plants grid price prices "
    "bill bills game games retries attempts restarts year years month months scheduler schedulers quarter season "
    "monday tuesday wednesday thursday friday saturday sunday usage kernel chunk chunks backup backups consumer consumers "
    "section sections upload uploads download downloads gap gaps delays package packages ci "
    "webhook webhooks dashboard dashboards refund refunds config configs ingest europe asia "
    "producer producers broker brokers name names pool pools lookup lookups replication gc calls rate rates lag size depth "
    "throughput cluster clusters load-balancer browser browsers lines keyboard keyboards holiday holidays shareholder "
    "shareholders placeholder placeholders blockchain"
)
_COMMAND = _words(
    "export import request service model queue cache batch stream page file record field table invoice test harness "
    "source document map class list part port code script query sample probe mail email book film power plant price bill "
    "press store partition shard zone proxy value number version build function line phase pipeline host lab wind log "
    "report trace count alert crash message graph result reason disconnect step case task request process title store "
    "letter attempt gate house thread sandbox row peer season time-out backup name pool rate lag size cluster upload "
    "download package section refund config webhook ingest"
)
"""Nouns that are a command where a title begins with them: it then has to have a word of `_EVENT` ("export timeout")."""
_NEVER_FIRST = _words("process processes read write connect call calls disk-read note restart retry")
"""What is a command in front of anything: a word has to stand before it."""
_LABELLED = _words(
    "worker replica host node shard partition region zone attempt request line part step batch job phase page port "
    "version column row case test fixture build pod container task"
)
_QUALITY = _words(
    "renewable redacted partial internal external nightly daily weekly hourly average median mean high unknown invalid "
    "missing malformed unexpected repeated early late cold previous earlier failed broken incomplete local remote public "
    "private big small large short brief plain raw first second third last many few several some failing transient "
    "intermittent sporadic full total whole single green red blue new usual annual quarterly monthly upcoming recent unfamiliar "
    "p50 p90 p95 p99 low unreleased"
)
_STATE = _words(
    "slow late early empty unavailable unreachable unknown missing invalid malformed idle busy overloaded full down "
    "closed redacted incomplete partial broken stuck cold unhealthy high low refused rejected dropped logged delayed "
    "interrupted reported observed seen denied truncated cancelled skipped killed throttled saturated exhausted short "
    "long green red normal typical transient intermittent reset lost counted listed summarised summarized returned sent "
    "received missed exceeded running waiting behind ahead rebooted restarted retried evicted partitioned paused processed "
    "handled deleted written opened affected disconnected corrupted duplicated unstable flaky degraded unresponsive stale wrong "
    "delivered fine visible known caused overdue"
)
_DID = _words(
    "worked loaded "
    "paused passed ran grew increased decreased doubled halved rose fell disappeared improved degraded rebooted reconnected "
    "completed came died panicked recurred spiked peaked "
    "failed crashed stalled disconnected restarted recovered ended finished stopped started began "
    "responded waited slowed "
    "retried hung exited arrived vanished returned dropped closed appeared occurred happened errored aborted succeeded"
)
_DID_TO = _words(
    "exceeded returned reported logged showed reached received refused rejected dropped listed contained lacked missed "
    "saw caused lost wrote had processed handled covered tested ignored skipped killed produced triggered found counted "
    "measured started used made served created deleted updated opened sent"
)
_SHOWS = _words("shows contains covers has")
"""What a log, a report, a title's noun does, today too. Never with a measure: that would be a right."""
_GREW = _words("grew increased decreased rose fell dropped went-up went-down")
_MEASURED = _words(
    "latency latencies usage rate rates lag size depth throughput median mean average p50 p90 p95 p99 traffic"
)
"""What has a value, and is no limit."""
_AS_SUBJECT = _words("it nothing")
_BEHIND_AN_ARTICLE = _words("empty slow clean long short stale")
"""What would be a command in front, and says how something is behind an article, a number, or a verb."""
_OF_A_SPAN = _words("second minute hour day week month quarter year night")
"""Behind a number these are units, and a title has none: "900 second timeout" would be a limit."""
_TOOK = _words("took lasted waited spent averaged")
_BE = _words("was were is are")
_ARTICLE = _words("the a an this that each its their")
_NUMBER = _words("zero one two three four five six seven eight nine ten eleven twelve")
_UNIT = _words("ms s sec secs seconds min mins minute minutes h hour hours day days kb mb gb kib mib gib percent % rps")
_PREPOSITION = _words("at on in from during near via across per")
_OF_A_THING = _words("for of with by")
"""Behind these a title has no number of units: "a timeout of 900 s" would be a limit."""
_OF_TIME = _words("after before within over under about between around")
_ABOUT = _words("about roughly nearly approximately almost")
_JOIN = _words("and or but while when because , as")
_ADVERB = _words("too twice once early late slowly today yesterday overnight")
_INERT = _words("tax taxes warranty road schema class article house")
"""What cannot hold anything, and so may extend."""

_PHRASES: dict[tuple[str, ...], str] = {
    ("there", "was"): "e",
    ("there", "were"): "e",
    ("backed", "off"): "D",
    ("came", "back"): "D",
    ("went", "up"): "Dg",
    ("ran", "out"): "D",
    ("out", "of", "memory"): "QG",
    ("at", "that", "time"): "X",
    ("the", "rest"): "N",
    ("load", "balancer"): "N",
    ("load", "balancers"): "N",
    ("cpu", "load"): "Nq",
    ("garbage", "collection"): "N",
    ("gc", "pause"): "G",
    ("gc", "pauses"): "G",
    ("cache", "miss"): "G",
    ("cache", "misses"): "G",
    ("same", "error"): "G",
    ("same", "errors"): "G",
    ("no", "errors"): "G",
    ("no", "timeouts"): "G",
    ("no", "failures"): "G",
    ("no", "requests"): "N",
    ("no", "data"): "N",
    ("false", "positive"): "T",
    ("false", "positives"): "T",
    ("eu", "region"): "N",
    ("us", "region"): "N",
    ("all", "requests"): "N",
    ("most", "requests"): "N",
    ("most", "errors"): "G",
    ("all", "tests"): "N",
    ("all", "calls"): "N",
    ("all", "jobs"): "N",
    ("all", "retries"): "N",
    ("timed", "out"): "D",
    ("timed-out",): "D",
    ("gave", "up"): "D",
    ("went", "down"): "Dg",
    ("press", "release"): "T",
    ("press", "releases"): "T",
    ("release", "notes"): "T",
    ("release", "note"): "T",
    ("release", "candidate"): "TL",
    ("release", "branch"): "N",
    ("release", "pipeline"): "N",
    ("release", "party"): "N",
    ("release", "schedule"): "T",
    ("release", "calendar"): "T",
    ("earnings", "press", "release"): "T",
    ("film", "release"): "N",
    ("software", "release"): "N",
    ("renewable", "energy"): "T",
    ("renewables",): "T",
    ("stealth", "mode"): "T",
    ("stealth", "startup"): "T",
    ("stealth", "aircraft"): "T",
    ("stealth", "game"): "T",
    ("stealth", "games"): "T",
    ("income", "tax"): "NI",
    ("sales", "tax"): "NI",
    ("property", "tax"): "NI",
    ("carbon", "tax"): "NI",
    ("press", "release", "schedule"): "T",
    ("tokenizer",): "N",
    ("tokenizers",): "N",
    ("token", "bucket"): "T",
    ("token", "buckets"): "T",
    ("deadline", "exceeded"): "G",
    ("quota", "exceeded"): "G",
    ("threshold", "exceeded"): "G",
    ("rate", "limit", "exceeded"): "G",
    ("rate", "limit", "error"): "G",
    ("rate", "limit", "errors"): "G",
    ("failed", "with"): "f",
    ("responded", "with"): "f",
    ("answered", "with"): "f",
    ("holdings", "report"): "T",
    ("holding", "company"): "N",
    ("certificate", "renewal"): "N",
    ("subscription", "renewal"): "N",
    ("domain", "renewal"): "N",
    ("license", "renewal"): "N",
    ("passport", "renewal"): "N",
    ("urban", "renewal"): "T",
    ("file", "extension"): "N",
    ("file", "extensions"): "N",
    ("browser", "extension"): "T",
    ("phone", "extension"): "N",
    ("extended", "family"): "T",
    ("extended", "family", "photos"): "T",
    ("extended", "warranties"): "T",
    ("extended", "warranty"): "T",
    ("extended", "coverage"): "N",
    ("tax", "extension"): "N",
    ("tax", "extensions"): "N",
    ("extension", "cord"): "T",
    ("extension", "cords"): "T",
    ("work", "stealing"): "N",
    ("work-stealing",): "Q",
    ("new", "release"): "N",
    ("latest", "release"): "N",
    ("beta", "release"): "N",
    ("release", "date"): "N",
    ("release", "version"): "N",
    ("no", "response"): "G",
    ("no", "answer"): "G",
    ("connection", "reset"): "G",
    ("stream", "reset"): "G",
    ("connection", "resets"): "G",
    ("response", "time"): "T",
    ("read", "timeout"): "G",
    ("read", "timeouts"): "G",
    ("read", "error"): "G",
    ("read", "errors"): "G",
    ("write", "timeout"): "G",
    ("write", "timeouts"): "G",
    ("write", "error"): "G",
    ("write", "errors"): "G",
    ("connect", "timeout"): "G",
    ("connect", "timeouts"): "G",
    ("response", "times"): "T",
    ("the", "cause"): "Tr",
    ("a", "cause"): "T",
    ("root", "cause"): "Tr",
    ("due", "to"): "F",
    ("because", "of"): "F",
    ("at", "least"): "H",
    ("at", "most"): "H",
    ("[redacted]",): "QN",
    ("<redacted>",): "QN",
}
"""The longest that fits is taken. Inside one, a word means nothing by itself."""

_LISTS: tuple[tuple[str, frozenset[str]], ...] = (
    ("T", _TITLE),
    ("G", _EVENT),
    ("N", _THING),
    ("L", _LABELLED),
    ("I", _INERT),
    ("Z", _NEVER_FIRST),
    ("Q", _QUALITY),
    ("S", _STATE),
    ("D", _DID),
    ("O", _DID_TO),
    ("K", _TOOK),
    ("V", _BE),
    ("v", frozenset({"was", "were"})),
    ("R", _SHOWS),
    ("g", _GREW),
    ("q", _MEASURED),
    ("i", _AS_SUBJECT),
    ("w", _BEHIND_AN_ARTICLE),
    ("A", _ARTICLE),
    ("n", _NUMBER),
    ("U", _UNIT),
    ("P", _PREPOSITION),
    ("F", _OF_A_THING),
    ("W", _OF_TIME),
    ("H", _ABOUT),
    ("J", _JOIN),
    ("j", frozenset({"and", "or"})),
    ("X", _ADVERB),
    ("E", frozenset({"extends"})),
    ("M", frozenset({"not"})),
    ("m", frozenset({"times"})),
    ("o", frozenset({"to"})),
    ("c", frozenset({"status", "http", "code", "error"})),
    ("k", frozenset("abcdefghjklmnopqrstuvwxyz")),
)
_ORDER = re.compile(
    r"renew|steal|stole|extend|extens|prolong|releas|fenc|(?<!p)lease|\bhold|\bheld|\bkeep|\bkept|\block|unlock|acquir|seiz|\bgrab|\btake\b"
    r"|\btoken|\bttl\b|expir|owner|leader|\bgrant|heartbeat|keepalive|\balive\b|refresh|reclaim|\bclaim"
)
"""Only for the reason that is told. Nothing is let through because it has none of these."""
_TOKEN = re.compile(
    r"\[redacted\]|<redacted>|[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[t ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?)?z?"
    r"|[0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?|[0-9]{1,9}(?:\.[0-9]{1,6})?(?![a-z0-9._-])|[0-9]{1,9}(?=(?:ms|s|%)(?![a-z0-9]))"
    r"|[a-z0-9](?:[a-z0-9._/-]{0,62}[a-z0-9])?|[%,]| +"
)
_CLOCK = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}.*|[0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?")
_DIGITS = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,6})?")
_STATUS = re.compile("[1-5][0-9]{2}")
_END = re.compile(r"[.;:]+(?=\s|\Z)|\n+")
_PARTS = re.compile("[._/-]")
_SPAN = re.compile("[0-9._/-]+([a-z]+)[._/-]*")
_NAME = re.compile(r"(?=.*[0-9._/-])[a-z0-9._/-]+")


def fault_of(text: object, names: Collection[str] = ()) -> str:
    """Say why a text cannot be let through, as an id of FAULTS; "": it is a report. `names` are what the worker showed."""
    if type(text) is not str:
        return "text-type"
    if len(text) > MAX_TEXT:
        return "text-long"
    plain = unicodedata.normalize("NFKC", text)
    if any(unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp") for char in plain if char != "\n"):
        return "text-hidden"
    plain = plain.casefold()
    if not plain.isascii():
        return "text-letters"
    if len(plain) > MAX_TEXT:
        return "text-long"
    known = {name.casefold() for name in names if type(name) is str}
    known = {name for name in known if _NAME.fullmatch(name) and not _orders(name)}
    sentences = [part.strip() for part in _END.split(plain) if part.strip()]
    if not sentences:
        return "no-report"
    faults = [_sentence(one, known) for one in sentences]
    if any(faults) and _ORDER.search(plain):
        return "order"
    return next((one for one in ("word-unknown", "no-report") if one in faults), "")


def _orders(name: str) -> bool:
    """Whether a name has a word of an order in it, parted by signs or not, or is a span of time ("900-s")."""
    if _ORDER.search(name.replace("_", "-")) or _ORDER.search(_PARTS.sub("", name)):
        return True
    span = _SPAN.fullmatch(name)
    return span is not None and (span[1] in _UNIT or span[1] in _OF_A_SPAN)


def _sentence(text: str, names: Collection[str]) -> str:
    tokens: list[str] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            return "word-unknown"
        if match[0].strip():
            tokens.append(match[0])
        at = match.end()
    if len(tokens) > MAX_TOKENS:
        return "no-report"
    classes = list(_classes(tokens, names))
    if not all(classes):
        return "word-unknown"
    return "" if _reads(classes) else "no-report"


def _classes(tokens: list[str], names: Collection[str]) -> Iterator[str]:
    """Give what each word, or fixed phrase, can be, a letter each; "" for a word that is not listed."""
    at = 0
    while at < len(tokens):
        if tokens[at] == "," and tokens[at + 1 : at + 2] in (["and"], ["or"], ["but"], ["while"]):
            at += 1
        for size in (3, 2, 1):
            kind = _PHRASES.get(tuple(tokens[at : at + size]))
            if kind is not None:
                at += size
                yield kind
                break
        else:
            counted = at > 0 and (tokens[at - 1] in _NUMBER or _DIGITS.fullmatch(tokens[at - 1]) is not None)
            yield "U" if counted and tokens[at] in _OF_A_SPAN else _word(tokens[at], names)
            at += 1


def _word(word: str, names: Collection[str]) -> str:
    if _CLOCK.fullmatch(word):
        return "C"
    if _DIGITS.fullmatch(word):
        return "ns" if _STATUS.fullmatch(word) else "n"
    found = "".join(kind for kind, words in _LISTS if word in words)
    if word in _COMMAND:
        found = found.translate(_AS_COMMAND)
    return found + "N" if word in names else found


# The grammar, over one letter a word: T a title's noun, G an event, N another noun, L one that is numbered, I one that may
# extend; t, y, l the same as T, N, L where a title that begins with it would command; Z a noun that is never first; Q quality,
# S state, A article, n number, U unit, C time of day, H about; D did, O did to, K took, V be, M not, E extends; P preposition,
# W one of time, F one of things, o "to", J join, j of things, X adverb, m times, c what has a status s, k a letter that numbers;
# f failed with, v was, e there was, i it, R shows, g grew, q what has a value, r a cause, w a quality that is never first.
_AS_COMMAND = str.maketrans({"T": "t", "N": "y", "L": "l", "I": ""})
_NOUN = "(T|t|G|N|I|L|Ln|Lk|y|ln|lk|cs)"
_WORD = f"(Q|w|Z|{_NOUN})"
_HEAD = "(T|t|G|cs)"
_CALM = "(T|G|N|I|L|Ln|Lk|cs)"
_TITLE_PHRASE = (
    f"((An?|n|A?n?Q){_WORD}*{_HEAD}"  # something stands before
    f"|{_CALM}{_WORD}*{_HEAD}|T|G|cs"
    f"|(y|t){_WORD}*G({_WORD}*{_HEAD})?)"  # a command, if it were not for the event
)
_BARE = f"{_NOUN}({_WORD}*(Z|{_NOUN}))?"
_THINGS = f"(nF)?({_TITLE_PHRASE}|A?n?Q*{_BARE}|(An?|n)(Q|w)*{_BARE}|(An?|n|Q)Q*Z({_WORD}*(Z|{_NOUN}))?)"
_MEASURE = "(H?nU)"
_BESIDE = f"((P|W)({_MEASURE}|C(JC)?|{_THINGS})|(F|o){_THINGS})"  # a title
_WHEN = f"((P|W|F)({_MEASURE}|C(JC)?|{_THINGS})|o{_THINGS})"
_VERB = f"(D|fA?s|f{_THINGS}|O(w?{_THINGS}|W?{_MEASURE}|A?s)|K{_MEASURE}|VM?S|Vw|V{_TITLE_PHRASE})"
_PREDICATE = f"{_VERB}(X|nm|{_WHEN})*"
_SAID = (
    f"({_TITLE_PHRASE}{_BESIDE}*|{_THINGS}(j{_THINGS})?{_WHEN}*{_PREDICATE}(J{_PREDICATE})*|A?Q*IE((P|W|F){_THINGS})*"
    f"|e{_THINGS}{_WHEN}*|i{_PREDICATE}(J{_PREDICATE})*"
    f"|{_TITLE_PHRASE}{_BESIDE}*(vP(C|{_THINGS})|RW?w?{_THINGS}{_WHEN}*)"
    f"|A?n?Q*{_WORD}*q{_WHEN}*(vP?{_MEASURE}|g(P{_MEASURE})?(o{_MEASURE})?)(X|{_WHEN})*"
    f"|A?rVA(Q|w)*{_BARE})"
)
GRAMMAR = f"{_SAID}(J{_SAID})*"
"""A regular expression of letters, `|`, `*`, `?` and brackets."""


def _reads(classes: list[str]) -> bool:
    """Whether the words can be read by the grammar: all readings at once, so that time grows with length alone."""
    here = _reached({0})
    for can_be in classes:
        here = _after(here, can_be)
    return 1 in here


@lru_cache(maxsize=4096)
def _after(here: frozenset[int], can_be: str) -> frozenset[int]:
    return _reached({to for at in here for letter, to in _machine()[at] if letter and letter in can_be})


def _reached(states: set[int]) -> frozenset[int]:
    machine, waiting = _machine(), list(states)
    while waiting:
        for letter, to in machine[waiting.pop()]:
            if not letter and to not in states:
                states.add(to)
                waiting.append(to)
    return frozenset(states)


@cache
def _machine() -> list[list[tuple[str, int]]]:
    """Build the automaton: of each state, letters and where they lead; without a letter one is there already. 0 to 1."""
    machine: list[list[tuple[str, int]]] = [[], []]

    def state() -> int:
        machine.append([])
        return len(machine) - 1

    def either(at: int, begin: int, end: int) -> int:
        while True:
            first = state()
            machine[begin].append(("", first))
            at, last = row(at, first)
            machine[last].append(("", end))
            if GRAMMAR[at : at + 1] != "|":
                return at
            at += 1

    def row(at: int, here: int) -> tuple[int, int]:
        while at < len(GRAMMAR) and GRAMMAR[at] not in "|)":
            begin, end = state(), state()
            machine[here].append(("", begin))
            if GRAMMAR[at] == "(":
                at = either(at + 1, begin, end)
            else:
                machine[begin].append((GRAMMAR[at], end))
            at += 1
            if GRAMMAR[at : at + 1] in ("*", "?"):
                machine[begin].append(("", end))
                if GRAMMAR[at] == "*":
                    machine[end].append(("", begin))
                at += 1
            here = state()
            machine[end].append(("", here))
        return at, here

    either(0, 0, 1)
    return machine
