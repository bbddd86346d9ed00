"""The webhook-path gate: what is a model's span, when an answer is out, and what came of which accept."""

from typing import Any

import msgspec
import pytest

from drillmaster import strict
from drillmaster.errors import Problem
from drillmaster.gates._cases.webhook_path import (
    INSERT,
    LIMITS,
    WORK,
    accept,
    good,
    limits,
    model,
    span,
    spans,
)
from drillmaster.gates._webhook_path_spans import Forest, Span, Spans, model_of
from drillmaster.gates.webhook_path import WebhookPath
from drillmaster.verdict import Check, Verdict, conclude


def told(seen: Spans, gate: WebhookPath = LIMITS) -> dict[str, Check]:
    return {check.id: check for check in gate.checks(seen)}


def before(seen: Spans, gate: WebhookPath = LIMITS) -> str:
    return told(seen, gate)["model-before-202"].status


def test_a_worker_that_asks_when_the_answer_is_out_passes() -> None:
    assert {one.status for one in told(good()).values()} == {"pass"}


def closing(seen: Spans) -> tuple[str, ...]:
    checks = tuple(LIMITS.checks(seen))
    return LIMITS.closing(seen, Verdict(gate="webhook-path", status=conclude(checks), checks=checks))


def test_the_articles_words_are_printed_for_what_they_say_and_never_else() -> None:
    assert closing(good()) == ("accept path stayed model-free",)
    assert closing(good(instead=model(30, parent="01"))) == ("accept path called a model",)
    assert closing(spans()) == ()
    assert closing(good(instead=accept(status=200))) == ()


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("llm.complete", {}),
        ("LLM.complete", {}),
        ("chat gpt-4o", {}),
        ("chat", {}),
        ("text_completion davinci", {}),
        ("embeddings text-embedding-3", {}),
        ("invoke_agent billing", {}),
        ("execute_tool lookup", {}),
        ("openai.chat", {}),
        ("ChatCompletion", {}),
        ("chatCompletions.create", {}),
        ("OpenAI call", {}),
        ("ask-claude", {}),
        ("POST", {"kind": "client", "host": "api.openai.com"}),
        *((one, {}) for one in ("GPT4", "llama-3.1 generate", "qwen2 chat", "grok-4", "VertexAI predict", "model.predict",
                                "ask model", "langchain.run", "agent.run", "rerank", "sglang", "huggingface pipeline")),
        *(("POST", {"kind": "client", "host": one}) for one in ("us-central1-aiplatform.googleapis.com", "api.deepinfra.com",
                                                                "api.githubcopilot.com", "api.z.ai")),
        *(("POST", {"kind": "client", "path": one}) for one in ("/v1/rerank", "/v1/audio/transcriptions", "/generate_stream",
                                                                "/endpoints/triage/invocations", "/v2/models/triage/infer")),
        ("POST", {"kind": "client", "host": "API.Anthropic.com."}),
        ("POST", {"kind": "client", "host": "bedrock-runtime.eu-west-1.amazonaws.com"}),
        ("POST", {"kind": "client", "host": "llm-gateway.example.com"}),
        ("POST", {"kind": "client", "host": "eu.llm-gateway.example.com"}),
        ("POST", {"kind": "client", "host": "10.0.0.7", "path": "/v1/chat/completions"}),
        ("POST", {"kind": "client", "path": "/v1beta/models/x:streamGenerateContent"}),
        ("whatever", {"signals": ("gen_ai.operation.name",)}),
        ("summary job", {"signals": ("llm.request.type",)}),
    ],
)  # fmt: skip  # several a line
def test_a_models_span_is_known_by_attributes_name_or_whom_it_calls(name: str, more: dict[str, object]) -> None:
    assert model_of(span("05", name, 1, 2, **more), hosts=("llm-gateway.example.com",))


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("POST /webhooks/billing", {"kind": "server"}),
        ("INSERT events", {"kind": "client", "host": "db.internal"}),
        ("chatter.publish", {}),
        ("SELECT", {"kind": "client", "host": "notopenai.com.example.com"}),
        ("GET /v1/models/list", {"kind": "server", "path": "/v1/chat/completions"}),  # our own API is no model we ask
        ("GET", {"kind": "client", "host": "myllm-gateway.example.com.evil"}),
        ("full fillment", {}),
        ("remodel house", {}),
        ("agency.run", {}),
        ("model validated", {}),
        ("POST", {"kind": "client", "host": "buzz.ai"}),
        ("POST", {"kind": "client", "host": "storage.googleapis.com"}),
        ("POST", {"kind": "client", "path": "/v1/messages/5"}),
        ("incompletion-check", {}),
    ],
)
def test_what_is_called_alike_is_none(name: str, more: dict[str, object]) -> None:
    assert model_of(span("05", name, 1, 2, **more), hosts=("llm-gateway.example.com",)) == ""


def test_a_name_that_only_sounds_so_can_be_said_and_takes_nothing_else_off() -> None:
    other = ("order completion",)
    assert model_of(span("05", "order completion", 1, 2))
    assert model_of(span("05", "order completion", 1, 2), other_names=other) == ""
    assert model_of(span("05", "order completion", 1, 2, signals=("gen_ai.system",)), other_names=other)
    assert model_of(span("05", "order completion", 1, 2, kind="client", host="api.openai.com"), other_names=other)


@pytest.mark.parametrize(
    ("start_ms", "status"),
    [(0, "fail"), (39.999, "fail"), (40, "pass"), (40.001, "pass"), (5000, "pass")],
)
def test_by_one_clock_the_edge_is_exact(start_ms: float, status: str) -> None:
    early = span("05", "chat gpt-4o", start_ms, start_ms + 1, parent="01", signals=("gen_ai.system",))
    assert before(good(early)) == status


@pytest.mark.parametrize(
    ("start_ms", "status"), [(-61, "fail"), (-60, "refused"), (139.999, "refused"), (140, "pass"), (5000, "pass")]
)
def test_by_two_clocks_what_lies_within_their_skew_is_refused(start_ms: float, status: str) -> None:
    other = model(start_ms, parent="", clock="host-2")
    assert before(good(instead=other)) == status


@pytest.mark.parametrize("clock", ["", "host-2"])
def test_a_process_that_does_not_say_whose_clock_it_has_has_another(clock: str) -> None:
    assert before(good(instead=model(90, clock=clock))) == "refused"
    assert before(good(instead=model(90, clock=clock)), limits(max_skew_ms=10.0)) == "pass"


def test_the_answer_is_out_when_its_sending_is_traced_though_the_span_goes_on() -> None:
    background = span("05", "chat gpt-4o", 45, 800, parent="01", signals=("gen_ai.system",))
    long = accept(end_ns=accept().start_ns + 900 * 10**6)
    assert before(good(background, instead=long)) == "fail"
    sent = span("06", "POST /webhooks/billing http send", 39, 40, parent="01", answered=True)
    assert before(good(background, sent, instead=long)) == "pass"


TRACE_B = "b" * 32


def test_a_link_is_as_good_as_a_parent() -> None:
    def linked(start_ms: float, to: tuple[str, str]) -> Spans:
        head = span("07", "process batch", start_ms, 900, trace=TRACE_B, links=(to,), kind="consumer")
        asked = model(start_ms + 1, trace=TRACE_B, parent="07", clock="host-1")
        return spans(accept(), INSERT, head, asked)

    assert before(linked(20, ("a" * 32, "01"))) == "fail"
    assert before(linked(20, ("a" * 32, "02"))) == "fail"  # to a span below the accept
    assert before(linked(20, ("a" * 32, "ff"))) == "fail"  # to one that no file has: it may be below it
    assert before(linked(60, ("a" * 32, "01"))) == "pass"
    assert before(linked(20, ("d" * 32, "01"))) == "pass"  # another trace's affair


def test_of_a_batch_only_what_hangs_below_the_link_is_this_accepts() -> None:
    head = span("07", "poll", -500, 900, trace=TRACE_B, kind="consumer")
    other = model(-400, trace=TRACE_B, parent="07")  # for an event of before
    mine = span("08", "process evt", 60, 900, trace=TRACE_B, parent="07", links=(("a" * 32, "01"),))
    asked = span("09", "chat gpt-4o", 61, 800, trace=TRACE_B, parent="08", signals=("gen_ai.system",))
    assert before(spans(accept(), INSERT, head, other, mine, asked)) == "pass"


def test_many_webhooks_of_one_trace_have_each_their_own_model() -> None:
    """A test that replays under one span of its own: the second accept begins when the first one's worker has asked."""
    root = span("00", "replay", -10, 3000, process="test/1")
    first = accept(parent="00")
    second = span(
        "11", "POST /webhooks/billing", 2000, 2040, parent="00", kind="server", path="/webhooks/billing", status=202
    )
    kept = span("12", "INSERT events", 2010, 2020, parent="11", kind="client", stores=True)
    seen = spans(root, first, INSERT, WORK, model(90), second, kept)
    assert {one.status for one in told(seen).values()} == {"pass"}
    of_nobody = span("13", "chat gpt-4o", 1500, 1600, parent="00", signals=("gen_ai.system",))
    assert before(spans(root, first, INSERT, WORK, model(90), second, kept, of_nobody)) == "fail"


def test_a_gateway_before_the_terminator_is_an_accept_too() -> None:
    gateway = span("00", "POST /webhooks/billing", -5, 50, kind="server", path="/webhooks/billing", status=202)
    asked = span("05", "chat gpt-4o", -3, -1, parent="00", signals=("gen_ai.system",))
    assert before(spans(gateway, accept(parent="00"), INSERT, WORK, model(90))) == "pass"
    assert before(spans(gateway, asked, accept(parent="00"), INSERT, WORK, model(90))) == "fail"


def test_a_callers_parent_is_in_no_file_and_a_workers_must_be() -> None:
    assert told(good(instead=accept(parent="ee")))["trace-whole"].status == "pass"
    orphan = msgspec.structs.replace(WORK, parent="ee")
    assert told(good(instead=orphan))["trace-whole"].status == "refused"


def test_refusals_of_the_terminator_are_judged_as_well() -> None:
    bad = span(
        "21", "POST /webhooks/billing", 100, 101, trace="e" * 32, kind="server", path="/webhooks/billing", status=401
    )
    asked = span("22", "chat gpt-4o", 100.2, 100.9, trace="e" * 32, parent="21", signals=("gen_ai.system",))
    assert told(good(bad))["stored-first"].status == "pass"  # nothing has to be kept of it
    assert before(good(bad)) == "pass"
    assert before(good(bad, asked)) == "fail"


@pytest.mark.parametrize(
    "one",
    [
        span("31", "GET /webhooks/billing", 0, 1, kind="server", method="GET", path="/webhooks/billing", status=405),
        span("31", "POST /webhooks/other", 0, 1, kind="server", path="/webhooks/other", status=202),
        span("31", "POST /webhooks/billing", 0, 1, kind="client", path="/webhooks/billing", status=202),
    ],
)
def test_what_is_no_accept_span(one: Span) -> None:
    assert not LIMITS.is_accept(one)


def test_an_accept_span_may_say_its_route_in_its_name_alone_or_have_a_name_of_its_own() -> None:
    assert LIMITS.is_accept(span("31", "POST /webhooks/billing", 0, 1, kind="server"))
    assert LIMITS.is_accept(span("31", "POST", 0, 1, kind="server", path="/webhooks/billing", route="/webhooks/{who}"))
    routed = limits(accept_paths=("/webhooks/{who}",))
    assert routed.is_accept(span("31", "POST", 0, 1, kind="server", path="/webhooks/x", route="/webhooks/{who}"))
    assert not LIMITS.is_accept(span("31", "POST /webhooks/billing", 0, 1, kind="server", path="/elsewhere"))
    gate = limits(accept_paths=(), accept_names=("webhook.accept",))
    assert gate.is_accept(span("31", "webhook.accept", 0, 1))


def test_a_trace_in_a_circle_ends() -> None:
    one, other = span("41", "a", 0, 1, parent="42"), span("42", "b", 0, 1, parent="41")
    assert told(good(one, other))["model-before-202"].status == "pass"


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("accept_paths", [], "accept_paths"),
        ("accept_paths", ["webhooks"], "accept_paths"),
        ("statuses", [200], "202"),
        ("statuses", [], "statuses"),
        ("min_accepts", 0, "min_accepts"),
        ("max_accept_ms", 0, "max_accept_ms"),
        ("max_skew_ms", -1, "max_skew_ms"),
        ("store_span", "yes", "store_span"),
    ],
)
def test_limits_that_judge_nothing_are_refused(field: str, value: object, said: str) -> None:
    entry = {**msgspec.json.decode(msgspec.json.encode(LIMITS)), field: value}
    with pytest.raises(Problem) as problem:
        strict.as_type(entry, WebhookPath, place="policy.yaml")
    assert said in str(problem.value)


def test_an_answer_whose_body_waits_for_a_model_is_not_out_with_its_head() -> None:
    head = span("10", "POST /webhooks/billing http send", 20, 21, parent="01", answered=True)
    body = span("11", "POST /webhooks/billing http send", 38, 39, parent="01", answered=True)
    asked = model(25, parent="01", process="terminator/1")
    assert told(good(head, instead=asked))["model-before-202"].status == "pass"
    assert told(good(head, body, instead=asked))["model-before-202"].status == "fail"
    assert told(good(head, msgspec.structs.replace(body, end_ns=0), instead=asked))["model-before-202"].status == "fail"


def test_accepts_of_long_ago_do_not_make_up_the_number() -> None:
    day_ns = 86_400 * 10**9
    old = accept()
    old = msgspec.structs.replace(
        old, id="21", trace="d" * 32, start_ns=old.start_ns - day_ns, end_ns=old.end_ns - day_ns
    )
    checks = {one.id: one for one in limits(min_accepts=2, store_span=False).checks(good(old))}
    assert (checks["fresh"].status, checks["examined"].status) == ("pass", "refused")


def test_a_model_that_was_asked_long_ago_does_not_show_that_one_would_be_seen() -> None:
    long_ago = model(-90_000_000, trace="d" * 32, parent="")
    assert told(spans(accept(), INSERT, WORK, long_ago))["instrumented"].status == "refused"


def test_a_proxys_span_around_the_servers_is_no_second_webhook() -> None:
    edge = accept()
    inner = span(
        "09", "POST /webhooks/billing", 5, 35, parent="01", kind="server", method="POST", path=edge.path, status=202
    )
    checks = {one.id: one for one in limits(min_accepts=2).checks(good(inner))}
    assert checks["examined"].status == "refused"


@pytest.mark.parametrize(
    ("more", "is_models"),
    [
        ({"kind": "client", "host": "llm-gateway.example.com"}, True),
        ({"kind": "client", "host": "EU.LLM-Gateway.example.com."}, True),
        ({"kind": "client", "host": "10.0.0.9", "other_hosts": ("api.openai.com",)}, True),
        ({"kind": "internal", "host": "api.openai.com"}, True),  # a client that says no kind
        ({"kind": "server", "host": "api.openai.com", "path": "/v1/chat/completions"}, False),
        ({"kind": "client", "path": "/v1/chat/completions/"}, True),
        ({"kind": "client", "path": "/model/anthropic.claude/invoke"}, True),
        ({"kind": "client", "path": "/v1/messages/count_tokens"}, True),
        ({"kind": "client", "path": "/api/embed"}, True),
        ({"kind": "client", "path": "/orders/invoke"}, False),
        ({"name": "google.ai.generativelanguage.v1beta.GenerativeService/GenerateContent"}, True),
        ({"name": "inference.GRPCInferenceService/ModelInfer"}, True),
        ({"name": "ｃhat ｇpt-4o"}, True),
        ({"name": "GenerateContents of the archive"}, False),
    ],
)
def test_whose_span_it_is_by_whom_it_calls(more: dict[str, Any], is_models: bool) -> None:
    seen = msgspec.structs.replace(span("07", "POST", 0, 1), **more)
    assert bool(model_of(seen, hosts=("LLM-gateway.Example.com",))) is is_models


@pytest.mark.parametrize("path", ["/webhooks/billing/", "/webhooks/billing", "//webhooks/billing"])
def test_a_path_with_one_stroke_more_is_the_same_path(path: str) -> None:
    asked = msgspec.structs.replace(model(30, parent="21"), id="22")
    other = msgspec.structs.replace(accept(path=path), id="21")
    assert told(good(other, asked))["model-before-202"].status == "fail"
    assert LIMITS.is_accept(other) and limits(accept_paths=("/webhooks/billing/",)).is_accept(accept())
    assert not LIMITS.is_accept(accept(path="/webhooks/billing/other"))


def test_of_many_webhooks_in_one_trace_each_has_its_own_workers_and_what_hangs_nowhere_is_everybodys() -> None:
    those = [msgspec.structs.replace(accept(), id=f"a{n}") for n in range(40)]
    below = [msgspec.structs.replace(WORK, id=f"w{n}", parent=f"a{n}") for n in range(40)]
    linked = [span(f"l{n}", "process", 60, 70, trace=f"{n:032x}", links=(("a" * 32, f"a{n}"),)) for n in range(40)]
    free = span("f0", "sweep", 60, 70)
    seen = Forest([*those, *below, *linked, free])
    for n, came in enumerate(seen.came_of(those)):
        assert {one.id for one in came} == {f"w{n}", f"l{n}", "f0"}
