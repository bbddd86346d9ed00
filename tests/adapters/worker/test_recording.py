import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import prometheus_client
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.adapters.worker.recording import COUNTER, FACTS, Recorder, label
from drillmaster.errors import Problem
from drillmaster.evidence import Row, rows
from drillmaster.guards import Decision, names
from drillmaster.guards.retry import FailedCall
from drillmaster.intake.guards_files import kind_of
from drillmaster.timeline import chunks

GO = Decision(allowed=True, reason="pinned-status", wait_ms=120, left=9)
NO = Decision(allowed=False, reason="deadline")
CALL = FailedCall(
    source="pinned-map", protocol="http", method="POST", code=503, attempt=2, elapsed_ms=40, idempotency_key="order-17-secret"
)  # fmt: skip  # one call


def lines(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines() if line] if log.exists() else []


def test_a_decision_is_one_line_of_names_and_numbers(tmp_path: Path) -> None:
    log = tmp_path / "timeline.jsonl"
    Recorder(log).record("partner-a", "retry", CALL, GO, route="plan-turn")
    (line,) = lines(log)
    del line["t"]
    assert line == {
        "event": "guard_decision", "guard": "retry", "entry": "partner-a", "allowed": True, "reason": "pinned-status",
        "wait_ms": 120, "left": 9, "route": "plan-turn", "attempt": 2, "code": 503, "method": "POST", "protocol": "http",
    }  # fmt: skip  # a line
    assert all(isinstance(one, Row) for one in rows(chunks(log), file="timeline.jsonl"))


def test_without_a_log_the_file_of_the_drill_is_it_and_without_a_drill_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder()
    recorder.record("retry", "retry", CALL, GO)
    monkeypatch.setenv("DRILL_LOG", str(tmp_path / "drill.jsonl"))
    recorder.record("retry", "retry", CALL, NO)
    assert [one["reason"] for one in lines(tmp_path / "drill.jsonl")] == ["deadline"]
    assert sum(recorder.counts().values()) == 2


class Talkative(msgspec.Struct):
    prompt: str = "Dear Sir"
    key: str = "tenant-4:cart"
    tool: str = "rm -rf"
    path: str = "/home/ada/notes"
    partner: str = "x"
    attempt: object = 1
    idempotency_key: str = "sk-live-1"


@given(word=st.text(max_size=300))
def test_what_is_no_name_is_not_written(word: str) -> None:
    written = Recorder()._fields("e", "g", Talkative(partner=word, attempt=[word]), NO, word)
    assert set(written) <= {"guard", "entry", "allowed", "reason", "partner", "route"}
    for field in ("partner", "route"):
        if field in written:
            assert written[field] == word
            assert len(word) <= 64
            assert word.isascii()
            assert not set(word) & set(" \n\"'{}<>=@")


@pytest.mark.parametrize("words", ["Dear Sir, refund it", "", "a\nb", "x" * 65, "r\u0435new"])
def test_a_decision_that_a_worker_made_itself_carries_no_text(tmp_path: Path, words: str) -> None:
    log = tmp_path / "t.jsonl"
    recorder = Recorder(log)
    recorder.record("q", "quota", None, Decision(allowed=False, reason=words, limit=words))
    (line,) = lines(log)
    assert (line["reason"], "limit" in line) == ("unlisted-reason", False)
    assert recorder.counts() == {("q", "quota", "unlisted-reason", False): 1}


@pytest.mark.parametrize("tag", names())
def test_of_any_guards_facts_only_those_are_written_that_are_listed(tag: str) -> None:
    facts = kind_of(tag).facts
    kinds = getattr(facts, "__args__", (facts,))
    for kind in kinds:
        fields = {field.name for field in msgspec.structs.fields(kind)}
        assert not fields & {"body", "prompt", "text", "message"}
    assert not {"key", "tool", "path", "identity", "idempotency_key", "server", "tenant"} & set(FACTS)


def test_a_secret_that_got_into_a_name_is_screened(tmp_path: Path) -> None:
    log = tmp_path / "t.jsonl"
    key = "sk-" + "a1b2c3d4" * 4
    Recorder(log).record("q", "quota", Talkative(partner=key), NO)
    assert key not in log.read_text()


def test_denials_are_all_written_and_allowed_ones_by_their_share(tmp_path: Path) -> None:
    log = tmp_path / "t.jsonl"
    recorder = Recorder(log, allowed_share=0.1)
    for _ in range(100):
        recorder.record("retry", "retry", CALL, GO)
    for _ in range(7):
        recorder.record("retry", "retry", CALL, NO)
    found = lines(log)
    assert [one["allowed"] for one in found].count(False) == 7
    assert [one["sampled"] for one in found if one["allowed"]] == [0.1] * 10
    assert recorder.counts() == {
        ("retry", "retry", "pinned-status", True): 100,
        ("retry", "retry", "deadline", False): 7,
    }


@pytest.mark.parametrize(("share", "wanted"), [(0.0, 0), (1.0, 30), (0.5, 15), (1 / 3, 10)])
def test_a_share_holds_over_any_stretch(share: float, wanted: int, tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "t.jsonl", allowed_share=share)
    for _ in range(30):
        recorder.record("retry", "retry", CALL, GO)
    assert len(lines(tmp_path / "t.jsonl")) == wanted


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match="allowed_share"):
        Recorder(allowed_share=share)


def test_allowed_ones_can_be_switched_off_and_denials_cannot(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "t.jsonl", allowed_share=0)
    for decision in (GO, NO, GO):
        recorder.record("retry", "retry", CALL, decision)
    (line,) = lines(tmp_path / "t.jsonl")
    # Without it nobody would know that there were allowed ones.
    assert (line["reason"], line["sampled"]) == ("deadline", 0)
    assert sum(recorder.counts().values()) == 3


def test_a_disk_that_takes_nothing_changes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorder = Recorder(tmp_path)  # a folder is no log
    recorder.record("retry", "retry", CALL, NO)
    recorder.record("retry", "retry", CALL, NO)
    assert recorder.counts() == {("retry", "retry", "deadline", False): 2}
    assert capsys.readouterr().err.count("lost") == 1
    assert recorder._marks is not None
    recorder._marks._lost = 0  # it would say so once more at the end of the tests


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(Problem, match="pip install 'drillmaster\\[prometheus\\]'"):
        Recorder().count_in()


def test_the_exposition_is_what_the_library_reads_and_what_it_counts_itself() -> None:
    from prometheus_client.parser import text_string_to_metric_families

    recorder, registry = Recorder(), prometheus_client.CollectorRegistry()
    recorder.count_in(registry)
    for decision in (GO, GO, NO):
        recorder.record("a", "retry", CALL, decision)
    (family,) = text_string_to_metric_families(recorder.exposition())
    ours = {tuple(sorted(one.labels.items())): one.value for one in family.samples}
    theirs = {
        tuple(sorted(one.labels.items())): one.value
        for family in registry.collect()
        for one in family.samples
        if one.name == f"{COUNTER}_total"
    }
    assert ours == theirs
    assert sorted(ours.values()) == [1.0, 2.0]
    assert family.type == "counter"


@given(value=st.text())
def test_a_label_of_any_text_is_read_back(value: str) -> None:
    from prometheus_client.parser import text_string_to_metric_families

    text = f'# TYPE x_total counter\nx_total{{a="{label(value)}"}} 1\n'
    if "\r" in value or any(one in value for one in "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"):
        return  # the library's own reader splits lines there
    (family,) = text_string_to_metric_families(text)
    assert family.samples[0].labels == {"a": value}
