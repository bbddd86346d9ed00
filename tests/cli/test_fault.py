"""`drillmaster fault` as far as it needs no socket: list, show, and what `try` refuses before it starts anything."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from drillmaster import cli, faults, strict
from drillmaster.cli._faults import MISTAKES
from drillmaster.plan import Fault as Planned
from drillmaster.standins.agent import BUGS


def said(*words: str) -> str:
    result = CliRunner().invoke(cli._root, ["fault", *words])
    assert result.exit_code == 0, result.output
    assert "\x1b" not in result.output
    return result.output


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as ended:
        cli.main(argv=["fault", *words])
    assert ended.value.code == 2
    return capsys.readouterr().err


def test_the_list_has_every_fault_once_under_its_group() -> None:
    lines = said("list").splitlines()
    listed = [line.split()[1] for line in lines if line.startswith("  ")]
    assert sorted(listed) == sorted(faults.names())
    groups = [line for line in lines[:-2] if line and not line.startswith(" ")]
    assert groups[:3] == ["connection", "time", "status"] and len(groups) == len(set(groups))
    assert "WPS  clean-end" in "\n".join(lines)


def test_the_list_for_programs_says_what_stands_behind_each() -> None:
    whole = json.loads(said("list", "--json"))
    assert whole["kind"] == "fault-list" and whole["of"] == len(faults.names())
    by_tag = {row["tag"]: row for row in whole["faults"]}
    assert set(by_tag) == set(faults.names())
    row = by_tag["syn-black-hole"]
    assert (row["group"], row["scope"], row["proof"], row["captured"]) == ("connection", "port", "probe", True)
    assert "openai" in by_tag["clean-end"]["sdks"]


def test_words_group_and_scope_choose() -> None:
    assert "4 of" not in said("list", "--group", "stream")
    assert {row["scope"] for row in json.loads(said("list", "--scope", "port", "--json"))["faults"]} == {"port"}
    assert [row["tag"] for row in json.loads(said("list", "gzip", "--json"))["faults"]] == ["bad-gzip"]


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (("list", "nothing-like-it"), "drillmaster fault list"),
        (("list", "--group", "strem"), "did you mean stream?"),
        (("list", "--seen", "brocken"), "did you mean broken?"),
        (("show", "hagn"), "did you mean hang?"),
        (("show", "../x"), "see: drillmaster fault list"),
        (("show", "reset", "--dialect", "x"), "write one of these"),
        (("try", "clean_end"), "did you mean clean-end"),
        (("try",), "drillmaster fault list"),
        (("try", "reset", "--dialect", "opnai_chat"), "did you mean openai_chat?"),
        (("try", "reset", "--when", "modle=x"), "did you mean model?"),
        (("try", "reset", "--when", "stream=yes"), "write --when stream=true"),
        (("try", "reset", "--when", "header=x"), "header.FIELD"),
        (("try", "refused", "--when", "model=x"), "leave --when out"),
        (("try", "503", "--when", "model="), "--when model: found an empty text"),
        (("try", "503", "--when", "header.a b=x"), "--when header: found 'a b'"),
        (("try", "504"), "any status is the fault `status`: --param status=504"),
        (("show", "418"), "any status is the fault `status`: --param status=418"),
        (("try", "status", "--param", "status=429", "--param", "condition=rate-tokns"), "did you mean rate-tokens?"),
        (("try", "error-event", "--param", "shape=falt"), "--param shape: found shape='falt'"),
        (("try", "reset", "--url", "x"), "--url: found 'x', wanted a URL on this machine"),
        (("try", "reset", "--time-limit", "nan"), "found nan, wanted a finite number"),
        (("try", "reset", "--rules", "x.yaml"), "write the fault as a rule"),
        (("try", "--rules", "no-such.yaml"), "no-such.yaml"),
        (("try", "reset", "--header", "host: x"), "x-tenant: blue"),
        (("try", "reset", "--header", "a: b\r\nc: d"), "x-tenant: blue"),
        (("try", "cut-body", "--param", "after_bytes=0"), "drillmaster fault show cut-body"),
        (("try", "reset", "--url", "http://192.0.2.1:80"), "drillmaster init eviction"),
        (("try", "reset", "--url", "http://example.com"), "drillmaster init eviction"),
        (("try", "reset", "--url", "https://127.0.0.1"), "drillmaster init eviction"),
        (("try", "reset", "--data", "no-such-file"), "name another"),
        (("try", "mcp-error", "--stream"), "leave --stream out"),
        (("try", "reset", "--repeat", "100", "--time-limit", "600"), "give each less time"),
        (("try", "reset", "--time-limit", "0"), "0.05<=x<=600"),
    ],
)
def test_what_cannot_work_is_refused_with_what_does(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], remedy: str
) -> None:
    assert remedy in refused(capsys, *words)


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("mode: stall, params: {after_events: -1}", "/rules/1/params: found after_events=-1, wanted after_events as"),
        ("mode: stall, first: 0", "/rules/1/first: found 0, wanted at least 1; correct it\n"),
        ("mode: refused", "/rules/1/mode: found refused, which acts on the port"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused_where_it_stands(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, rule: str, said: str
) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text(f"rules:\n  - {{mode: 503}}\n  - {{{rule}}}\n")
    assert f"--rules {file}: {said}" in refused(capsys, "try", "--rules", str(file))


@pytest.mark.parametrize("tag", faults.names())
def test_the_page_of_each_fault_has_lines_for_a_plan_that_a_plan_takes(tag: str) -> None:
    text = said("show", tag)
    for part in ("on the wire", "parameters", "in a plan", "fallbacks that it finds out", "what SDKs do with it"):
        assert part in text
    lines = text.splitlines()
    start = lines.index("  fault:")
    block = [line[2:] for line in lines[start : start + 3] if line.startswith(("  fault:", "    "))]
    value: Any = strict.load("\n".join(block).encode(), place="plan", fmt="yaml")
    planned = strict.as_type(value["fault"], Planned, place="plan")
    faults.make(str(value["fault"]["mode"]), planned.params)


@pytest.mark.parametrize("tag", faults.names())
def test_the_page_for_programs_has_a_schema_and_parameters_that_work(tag: str) -> None:
    whole = json.loads(said("show", tag, "--json"))
    assert whole["kind"] == "fault" and whole["tag"] == tag and whole["group"] != "other"
    assert set(whole["example"]) <= set(whole["params_schema"]["properties"])
    faults.make(tag, whole["example"])
    for words in whole["words"]:
        assert words["status"] >= 200


def test_a_page_says_what_each_api_says_and_where_that_is_documented() -> None:
    text = said("show", "overloaded", "--dialect", "anthropic")
    assert "anthropic: 529" in text and "source: D " in text and "gemini" not in text


def test_a_page_with_parameters_says_what_is_said_then() -> None:
    text = said(
        "show", "status", "--param", "status=429", "--param", "condition=rate-tokens", "--dialect", "openai_chat"
    )
    assert "openai_chat: 429" in text and "tokens per min" in text
    assert "params: {status: 429, condition: rate-tokens}" in text


def test_the_shapes_of_an_error_inside_a_stream_are_shown_with_their_source() -> None:
    text = said("show", "error-event", "--dialect", "openai_responses")
    for shape in ("flat", "nested", "failed"):
        assert f"openai_responses, {shape}: 200" in text
    one = json.loads(said("show", "error-event", "--param", "shape=flat", "--dialect", "openai_responses", "--json"))
    assert [words["dialect"] for words in one["words"]] == ["openai_responses, flat"]


def test_mistakes_that_are_named_are_mistakes_of_the_stand_in_agent() -> None:
    assert {bug for bugs in MISTAKES.values() for bug in bugs} <= set(BUGS)


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("fault show cut", ["cut-answer", "cut-body", "cut-stream"]),
        ("fault try cut-b", ["cut-body"]),
        ("fault try cut-body --param ", ["after_bytes=", "how="]),
        ("fault try reset --dialect open", ["openai_chat", "openai_responses", "openrouter"]),
        ("fault list --group st", ["status", "stream"]),
        ("fault list --seen re", ["redirect", "refused", "reset"]),
        ("run matrix --faults reset,5", ["reset,503"]),
        ("run matrix --faults cut-body,cut-", ["cut-body,cut-answer", "cut-body,cut-stream"]),
        ("run matrix --group st", ["status", "stream"]),
        ("proxy --mode cut-b", ["cut-body"]),
        ("sdk-check --client requ", ["requests"]),
        ("sdk-check --fault cut-b", ["cut-body"]),
    ],
)
def test_tags_parameters_and_groups_complete_with_tab(line: str, offered: list[str]) -> None:
    from click.shell_completion import ShellComplete

    *before, incomplete = line.split(" ")
    shell = ShellComplete(cli._root, {}, "drillmaster", "_DRILLMASTER_COMPLETE")
    assert [item.value for item in shell.get_completions(before, incomplete)] == offered


def test_what_sdks_do_stands_together_for_each_of_them() -> None:
    lines = said("show", "cut-body").partition("what SDKs do with it")[2].splitlines()[1:]
    clients = [tuple(line.split()[:2]) for line in lines if line.startswith("  ")]
    runs = [one for n, one in enumerate(clients) if n == 0 or clients[n - 1] != one]
    assert len(clients) > 20 and len(runs) == len(set(runs))
