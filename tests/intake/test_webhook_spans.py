"""Spans as OpenTelemetry's own SDK writes them, and files that are none."""

import base64
import contextlib
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.json.file import FileSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
from opentelemetry.trace import Link, SpanKind
from opentelemetry.util.types import AttributeValue

from drillmaster.errors import Problem
from drillmaster.gates._webhook_path_spans import Span, Spans, model_of
from drillmaster.intake.webhook_spans import open_spans

NOW_NS = 1_796_054_400 * 10**9
ACCEPT: dict[str, AttributeValue] = {
    "http.route": "/webhooks/billing",
    "http.request.method": "POST",
    "http.response.status_code": 202,
}


def traced(folder: Path, form: str, **limits: int) -> Path:
    """Trace one accept with the SDK: an insert and a model below it, a worker of another trace that links to it."""
    stream = io.StringIO()
    exporter = FileSpanExporter(stream=stream) if form == "otlp" else ConsoleSpanExporter(out=stream)
    provider = TracerProvider(
        resource=Resource({"service.name": "terminator", "service.instance.id": "i-1", "host.name": "lab"}),
        span_limits=SpanLimits(**limits),
        shutdown_on_exit=False,
    )
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("lab")
    with tracer.start_as_current_span("POST /webhooks/billing", kind=SpanKind.SERVER, attributes=ACCEPT) as top:
        with tracer.start_as_current_span("INSERT events", kind=SpanKind.CLIENT) as insert:
            insert.set_attribute("db.system.name", "postgresql")
            insert.set_attribute("db.query.text", "insert into events values ('hunter2')")
        with tracer.start_as_current_span("chat gpt-4o", kind=SpanKind.CLIENT) as asked:
            asked.set_attribute("gen_ai.operation.name", "chat")
            asked.set_attribute("gen_ai.input.messages", "hunter2")
            asked.add_event("gen_ai.choice", {"content": "hunter2"})
        accepted = top.get_span_context()
    link = Link(accepted)
    with tracer.start_as_current_span("process evt", kind=SpanKind.CONSUMER, links=[link], context=Context()):
        pass
    provider.shutdown()
    path = folder / f"{form}.json"
    path.write_text(stream.getvalue())
    return path


def read(*paths: Path) -> dict[str, Span]:
    return {one.name: one for one in open_spans(paths, now_ns=NOW_NS)[0].spans}


@pytest.mark.parametrize("form", ["otlp", "console"])
def test_what_the_sdk_writes_is_read_as_what_it_is(tmp_path: Path, form: str) -> None:
    seen = read(traced(tmp_path, form))
    top, insert, asked, work = (
        seen[one] for one in ("POST /webhooks/billing", "INSERT events", "chat gpt-4o", "process evt")
    )
    assert (top.kind, top.method, top.route, top.status, top.parent) == ("server", "POST", "/webhooks/billing", 202, "")
    assert (insert.parent, insert.stores, asked.parent) == (top.id, True, top.id)
    assert "gen_ai.operation.name" in asked.signals and model_of(asked) and not model_of(insert)
    assert work.trace != top.trace and work.links == ((top.trace, top.id),) and work.kind == "consumer"
    assert top.start_ns <= insert.start_ns <= insert.end_ns <= asked.start_ns <= asked.end_ns <= top.end_ns
    assert {(one.process, one.clock) for one in seen.values()} == {("terminator/i-1", "lab")}
    assert "hunter2" not in repr(seen)


def test_both_forms_of_one_trace_say_the_same_but_for_the_grain_of_time(tmp_path: Path) -> None:
    otlp, console = read(traced(tmp_path, "otlp")), read(traced(tmp_path, "console"))
    for name, one in otlp.items():
        other = console[name]
        assert (one.kind, one.signals, one.route, one.status, one.stores) == (
            other.kind,
            other.signals,
            other.route,
            other.status,
            other.stores,
        )


def test_what_the_sdk_had_to_drop_is_told_by_otlp(tmp_path: Path) -> None:
    seen = read(traced(tmp_path, "otlp", max_span_attributes=1, max_events=1))
    assert seen["POST /webhooks/billing"].dropped == 2
    assert seen["chat gpt-4o"].dropped == 1


def test_files_of_several_processes_are_one_and_a_repeated_export_counts_once(tmp_path: Path) -> None:
    path = traced(tmp_path, "otlp")
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines, *lines]))
    (tmp_path / "more.json").write_text(lines[0])
    seen, _ = open_spans([path, tmp_path / "more.json"], now_ns=NOW_NS)
    assert len(seen.spans) == 4 and seen.twice == ()
    (tmp_path / "again.json").symlink_to("more.json")
    with pytest.raises(Problem, match="each file once"):
        open_spans([tmp_path / "more.json", tmp_path / "again.json"], now_ns=NOW_NS)


def otlp(**more: Any) -> dict[str, Any]:
    span = {
        "traceId": "a" * 32,
        "spanId": "b" * 16,
        "name": "POST /webhooks/billing",
        "kind": 2,
        "startTimeUnixNano": "1796054400000000000",
        "endTimeUnixNano": "1796054400040000000",
        **more,
    }
    return {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}


def one(folder: Path, document: object) -> Spans:
    path = folder / "spans.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return open_spans([path], now_ns=NOW_NS)[0]


def test_two_spans_that_differ_under_one_id_are_told(tmp_path: Path) -> None:
    seen = one(tmp_path, json.dumps(otlp()) + "\n" + json.dumps(otlp(name="another")))
    assert [(cite.file, cite.line) for cite in seen.twice] == [("spans.json", 2)]


@pytest.mark.parametrize(
    "more",
    [
        {"kind": "SPAN_KIND_SERVER"},
        {"traceId": base64.b64encode(b"\xaa" * 16).decode(), "spanId": base64.b64encode(b"\xbb" * 8).decode()},
        {"parentSpanId": ""},
        {"traceState": "x=1", "flags": 257, "somethingNew": {"a": [1]}},  # the protocol says to ignore what is new
    ],
)
def test_ways_in_which_programs_write_the_same_span(tmp_path: Path, more: dict[str, Any]) -> None:
    (span,) = one(tmp_path, otlp(**more)).spans
    assert (span.kind, span.trace, span.id, span.parent) == ("server", "a" * 32, "b" * 16, "")


@pytest.mark.parametrize(
    "more",
    [
        {"traceId": ""},
        {"traceId": "0" * 32},
        {"traceId": "a" * 31},
        {"traceId": None},
        {"traceId": 7},
        {"spanId": "g" * 16},
        {"name": ""},
        {"name": None},
        {"kind": 9},
        {"kind": True},
        {"kind": "SERVERS"},
        {"startTimeUnixNano": "0"},
        {"startTimeUnixNano": "-1"},
        {"startTimeUnixNano": "2026-11-30T16:00:00Z"},
        {"startTimeUnixNano": None},
        {"endTimeUnixNano": "99999999999999999999"},
        {"attributes": [{"key": 7}]},
        {"attributes": [{"key": "http.response.status_code", "value": {"stringValue": "OK"}}]},
        {"attributes": [{"key": "http.response.status_code", "value": {"intValue": "99"}}]},
        {"links": [{"traceId": "a" * 32}]},
        {"links": "none"},
        {"events": [7]},
        {"droppedAttributesCount": -1},
        {"droppedAttributesCount": "many"},
    ],
)
def test_a_span_that_is_none_is_refused_with_its_place(tmp_path: Path, more: dict[str, Any]) -> None:
    with pytest.raises(Problem) as told:
        one(tmp_path, otlp(**more))
    assert "spans.json:1" in told.value.place and told.value.remedy


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ("", "an empty file"),
        (" \n\n", "an empty file"),
        ("{}", "neither"),
        ("[]", "no span"),
        ("null", "null"),
        ({"resourceSpans": []}, "no span"),
        ({"resourceSpans": [{"scopeSpans": [{"spans": []}]}]}, "no span"),
        ({"resourceMetrics": []}, "metrics"),
        ({"data": [{"traceID": "a"}]}, "Jaeger"),
        ({"batches": []}, "Tempo"),
        ([{"traceId": "a", "localEndpoint": {}}], "Zipkin"),
        ('{"resourceSpans": [', "spans.json:1"),
        ('{"resourceSpans": []}\n{"resourceSpans": [], "resourceSpans": []}', "spans.json:2"),
        ("{ name: 'POST', traceId: 'a' }", "spans.json:1"),  # what Node's console exporter prints
        ("}" * 1000, "spans.json:1"),
        ("[" * 100_000, "spans.json:1"),
    ],
)
def test_a_file_that_holds_no_spans_is_refused_by_its_name_where_it_has_one(
    tmp_path: Path, document: object, said: str
) -> None:
    with pytest.raises(Problem) as told:
        one(tmp_path, document)
    assert said in str(told.value)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="no such file"):
        open_spans([tmp_path / "spans.json"], now_ns=NOW_NS)


@pytest.mark.parametrize(
    ("attributes", "path", "route", "host"),
    [
        (
            {"url.path": "/webhooks/billing", "http.route": "/webhooks/{who}"},
            "/webhooks/billing",
            "/webhooks/{who}",
            "",
        ),
        ({"http.target": "/webhooks/billing?token=hunter2"}, "/webhooks/billing", "", ""),
        ({"url.full": "https://u:hunter2@api.openai.com:443/v1/x?k=hunter2"}, "/v1/x", "", "api.openai.com"),
        ({"http.url": "http://[::1", "server.address": "10.0.0.7"}, "", "", "10.0.0.7"),
        ({"net.peer.name": "llm.internal", "http.host": "x:8080"}, "", "", "llm.internal"),
    ],
)
def test_of_a_url_the_path_and_the_host_are_kept(
    tmp_path: Path, attributes: dict[str, str], path: str, route: str, host: str
) -> None:
    pairs = [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()]
    (span,) = one(tmp_path, otlp(attributes=pairs)).spans
    assert (span.path, span.route, span.host) == (path, route, host)
    assert "hunter2" not in repr(span)


@pytest.mark.parametrize(
    ("attributes", "stores"),
    [
        ({"db.system": "sqlite", "db.statement": "insert or ignore into events values (?)"}, True),
        ({"db.system.name": "postgresql", "db.operation.name": "INSERT"}, True),
        ({"db.system.name": "postgresql", "db.query.text": "WITH x AS (SELECT 1) INSERT INTO e SELECT * FROM x"}, True),
        ({"db.system.name": "redis", "db.operation.name": "XADD"}, True),
        ({"db.system.name": "postgresql", "db.query.text": "SELECT 1 -- insert"}, False),
        ({"db.system.name": "postgresql", "db.query.text": "UPDATE e SET x = 1"}, False),
        ({"db.query.text": "INSERT INTO e"}, False),  # nobody says that it is a database
    ],
)
def test_what_keeps_an_event_is_a_write_of_a_database(tmp_path: Path, attributes: dict[str, str], stores: bool) -> None:
    pairs = [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()]
    (span,) = one(tmp_path, otlp(attributes=pairs)).spans
    assert span.stores is stores


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=200))
def test_no_bytes_at_all_crash_it(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "any.json"
    path.write_bytes(data)
    with pytest.raises(Problem):
        open_spans([path], now_ns=NOW_NS)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "key",
                    "value",
                    "stringValue",
                    "spans",
                    "name",
                    "attributes",
                    "traceId",
                    "context",
                    "start_time",
                    "links",
                    "resource",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=15,
)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    field=st.sampled_from(["attributes", "links", "events", "parentSpanId", "endTimeUnixNano", "kind", "name"]),
    value=JSON,
    console=st.booleans(),
)
def test_no_field_of_a_span_crashes_it(tmp_path: Path, field: str, value: object, console: bool) -> None:
    span: dict[str, Any] = {"context": value, "start_time": value, field: value} if console else otlp(**{field: value})
    with contextlib.suppress(Problem):
        one(tmp_path, span)


def pairs(**attributes: str) -> list[dict[str, Any]]:
    return [{"key": key.replace("__", "."), "value": {"stringValue": value}} for key, value in attributes.items()]


@pytest.mark.parametrize("status", [{"code": 2}, {"code": "STATUS_CODE_ERROR"}])
def test_an_insert_that_failed_kept_nothing(tmp_path: Path, status: dict[str, Any]) -> None:
    told = pairs(db__system__name="postgresql", db__query__text="INSERT INTO e VALUES (1)")
    assert one(tmp_path, otlp(attributes=told, status={"code": 1})).spans[0].stores
    assert not one(tmp_path, otlp(attributes=told, status=status)).spans[0].stores


def test_an_insert_that_failed_kept_nothing_as_the_console_says_it(tmp_path: Path) -> None:
    path = traced(tmp_path, "console")
    text = path.read_text()
    assert read(path)["INSERT events"].stores
    at = text.index('"INSERT events"')
    path.write_text(text[:at] + text[at:].replace('"UNSET"', '"ERROR"', 1))
    assert not read(path)["INSERT events"].stores


def test_a_call_by_way_of_a_proxy_is_one_to_the_host_of_its_url_too(tmp_path: Path) -> None:
    told = pairs(server__address="proxy.internal", url__full="https://api.openai.com/v1/x")
    (span,) = one(tmp_path, otlp(kind=3, name="POST", attributes=told)).spans
    assert model_of(span) == "host api.openai.com"
    told = pairs(server__address="[fd00::7]", http__host="fd00::7")
    (span,) = one(tmp_path, otlp(kind=3, attributes=told)).spans
    assert (span.host, span.other_hosts) == ("fd00::7", ())


@pytest.mark.parametrize("kind", ["http.response.start", "http.response.body"])
def test_the_sending_of_a_head_and_of_a_body_are_what_an_answer_is_out_by(tmp_path: Path, kind: str) -> None:
    assert one(tmp_path, otlp(attributes=pairs(asgi__event__type=kind))).spans[0].answered


@pytest.mark.parametrize("depth", [2, 60, 900, 5000])
def test_lists_in_lists_are_no_spans(tmp_path: Path, depth: int) -> None:
    with pytest.raises(Problem):
        one(tmp_path, "[" * depth + json.dumps(otlp()) + "]" * depth)
