"""A trial as text."""

import msgspec

from drillmaster import dialects
from drillmaster.targeting import Rule
from drillmaster.trying import Met, Outcome, Tried
from drillmaster.trying.client import Event
from drillmaster.trying.telling import LINE_CHARS, MAX_LINES, Teller, summary

KEY = "sk-" + "a1b2c3d4" * 3


def told(*events: Event, colour: bool = False) -> list[str]:
    lines: list[str] = []
    teller = Teller(lines.append, colour=colour)
    for event in events:
        teller.tell(event)
    teller.finish()
    return lines


def test_what_is_sent_received_and_happens_is_marked_as_curl_does() -> None:
    assert told(
        Event("*", 0.2, b"connected"),
        Event(">", 0.3, b"POST /v1/x HTTP/1.1"),
        Event(">", 0.3, b""),
        Event("<", 5.0, b"HTTP/1.1 200 OK"),
        Event("body", 6.4, b'data: {"a":1}\n\n'),
    ) == ["* 0 ms: connected", "> POST /v1/x HTTP/1.1", ">", "< HTTP/1.1 200 OK", '      6 ms  data: {"a":1}']


def test_why_a_key_is_refused_is_shown() -> None:
    answer = dialects.load("mcp").error(None, "auth-expired", request_id="r")
    (field,) = [value for name, value in answer.headers if name == "www-authenticate"]
    lines = told(Event("<", 0, f"www-authenticate: {field}".encode()))
    assert '< www-authenticate: Bearer [screened], error="invalid_token", [screened]' in lines


def test_secrets_are_screened_in_fields_bodies_and_across_pieces() -> None:
    lines = told(
        Event(">", 0, f"authorization: Bearer {KEY}".encode()),
        Event(">", 0, b"x-api-key: abc"),
        Event(">", 0, f'{{"prompt": "my key is {KEY}"}}'.encode()),
        Event("<", 0, b"set-cookie: session=abcdef"),
        *(Event("body", i, part.encode()) for i, part in enumerate(('data: "' + KEY[:9], KEY[9:] + '"\n\n'))),
        Event("*", 9, f"said {KEY}".encode()),
    )
    text = "\n".join(lines)
    assert KEY not in text and KEY[9:] not in text and "abcdef" not in text
    assert "> x-api-key: [screened]" in lines


def test_what_comes_behind_a_piece_that_waits_for_its_line_comes_behind_it() -> None:
    lines: list[str] = []
    teller = Teller(lines.append)
    teller.tell(Event("body", 1, b'{"half a line of JSON":'))
    teller.tell(Event("*", 800, b"silence of 0.8 s"))
    assert lines == []
    teller.tell(Event("body", 801, b' "the other half"}\n'))
    assert [line.split(":")[0].strip() for line in lines] == [
        '1 ms  {"half a line of JSON"',
        "* 800 ms",
        '801 ms   "the other half"}',
    ]


def test_a_drip_shares_lines_and_says_how_many_pieces_they_are() -> None:
    lines = told(*(Event("body", 10.0 * i, b"x") for i in range(100)), Event("*", 1_000, b"whole"))
    assert lines == [
        "0-630 ms, 64 pieces  " + "x" * 64,
        "640-990 ms, 36 pieces  " + "x" * 36,
        "* 1000 ms: whole",
    ]


def test_no_answer_floods_a_terminal_and_none_can_paint_on_it() -> None:
    long = told(Event("body", 0, b"y" * 10_000 + b"\n"))
    assert len(long) == 1 and len(long[0]) < LINE_CHARS + 60 and "(+9400 characters)" in long[0]
    many = told(*(Event("body", 0, b"data: twenty bytes or more\n\n") for _ in range(MAX_LINES + 7)))
    assert len(many) == MAX_LINES + 1 and many[-1] == "* 7 more lines of bodies are not shown"
    # So does one piece of many lines.
    many = told(Event("body", 0, b"data: {}\n\n" * 5_000))
    assert len(many) == MAX_LINES + 1 and many[-1] == "* 4,600 more lines of bodies are not shown"
    assert told(Event("body", 0, b"\x1b[2J\xff and more than sixteen\n")) == [
        "      0 ms  \\x1b[2J\\xff and more than sixteen"
    ]
    assert "\x1b" not in "".join(told(Event("<", 0, b"server: \x1b[31mred")))


def test_colour_is_there_only_where_it_was_asked_for() -> None:
    events = (Event("<", 0, b"HTTP/1.1 200 OK"), Event("*", 1, b"whole"))
    assert "\x1b" not in "".join(told(*events))
    assert "\x1b[1mHTTP/1.1 200 OK\x1b[0m" in "".join(told(*events, colour=True))


def tried(seen: str, *, met: bool, as_described: bool) -> Tried:
    came = Outcome(seen=seen, status=200, ending=seen)
    by, described = (("stall",), ("stalled",)) if met else ((), ())
    one = Met(outcome=came, met=met, by=by, described=described, as_described=as_described)
    return Tried(
        fault="stall",
        rules=(Rule(mode="stall"),),
        dialect="openai_chat",
        stream=True,
        baseline=came,
        requests=(one,),
        met=met,
        as_described=as_described,
        why_not="" if met else "it let every request pass",
    )


def test_of_several_rules_each_that_took_a_request_is_told_and_each_that_took_none() -> None:
    rules = (Rule(mode="503", name="busy"), Rule(mode="stall", name="slow"), Rule(mode="reset", name="gone"))
    met = [
        Met(outcome=Outcome(seen=seen), met=True, by=(by,), described=(seen,), as_described=True)
        for seen, by in (("status", "busy"), ("status", "busy"), ("stalled", "slow"))
    ]
    found = msgspec.structs.replace(
        tried("stalled", met=True, as_described=True),
        rules=rules,
        requests=(*met, Met(outcome=Outcome(seen="complete"), met=False)),
    )
    said = [*summary(found)][4:]
    assert said[0].startswith("a fallback sees (status): ") and said[1].startswith("a fallback sees (stalled): ")
    assert said[2:] == [
        "took none of these requests: gone",
        "met as described: busy leaves a client with status; slow leaves a client with stalled",
    ]


def test_the_last_line_says_whether_it_was_met_as_described() -> None:
    good = [*summary(tried("stalled", met=True, as_described=True))][-1]
    assert good == "met as described: stall leaves a client with stalled"
    odd = [*summary(tried("complete", met=True, as_described=False))][-1]
    assert odd == "met, and NOT as described: stall leaves a client with stalled, and this one was left with complete"
    assert [*summary(tried("complete", met=False, as_described=False))][-1] == "NOT met: it let every request pass"
