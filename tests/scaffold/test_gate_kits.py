"""The policies that `init` writes for canary and free tier: every blank explained, and whole once its examples stand in them."""

import re
from pathlib import Path

import pytest

from drillmaster import strict
from drillmaster.clock import parse_rfc3339
from drillmaster.errors import Problem
from drillmaster.gates import find
from drillmaster.gates._canary_exceptions import Exemption, wrong
from drillmaster.intake.blanks import blanks, template
from drillmaster.intake.metrics import open_metrics
from drillmaster.intake.prometheus import read_plan
from drillmaster.judge import decode_gate, load_policy

KITS = ["cache-keys", "canary", "free-tier", "leases", "retries", "webhook-path", "workspace"]

_OPTIONAL = ("baseline", "exceptions", "model_hosts", "other_names")


def filled(text: str) -> str:
    """Write each blank's example behind its colon."""
    out: list[str] = []
    example = ""
    for line in text.splitlines():
        said = re.search(r"Example: (.+)$", line)
        example = said[1] if said else example
        if re.fullmatch(r" *(?:- )?[a-z_0-9]+:", line) and example:
            line, example = f"{line} {example}", ""
        out.append(line)
    return "\n".join(out) + "\n"


@pytest.mark.parametrize("kit", KITS)
def test_its_examples_make_a_whole_policy(kit: str) -> None:
    (text,) = template(kit).values()
    policy, _ = load_policy(filled(text).encode(), place="policy.yaml", fmt="yaml")
    assert isinstance(decode_gate(policy, kit, place="policy.yaml"), find(kit))


@pytest.mark.parametrize("kit", KITS)
def test_every_limit_is_a_blank_with_an_example(kit: str) -> None:
    (text,) = template(kit).values()
    told = blanks(text)
    assert all(told.values()), [pointer for pointer, example in told.items() if not example]
    fields = {field for field in find(kit).__struct_fields__ if field not in _OPTIONAL}
    assert fields <= {pointer.removeprefix("/gates/0/").partition("/")[0] for pointer in told}


@pytest.mark.parametrize("kit", KITS)
def test_one_blank_that_is_left_refuses_the_policy(kit: str) -> None:
    (text,) = template(kit).values()
    whole = filled(text)
    for name in find(kit).__struct_fields__:
        cut = re.sub(rf"(?m)^    {name}: .+$", f"    {name}:", whole)
        if cut == whole:
            continue
        with pytest.raises(Problem, match=name):
            policy, _ = load_policy(cut.encode(), place="policy.yaml", fmt="yaml")
            decode_gate(policy, kit, place="policy.yaml")


GATES = [*KITS, "contract", "cutover", "tools"]


@pytest.mark.parametrize("kit", GATES)
def test_a_policy_as_it_was_written_names_all_its_blanks_at_once(kit: str) -> None:
    (text,) = template(kit).values()
    with pytest.raises(Problem) as told:
        load_policy(text.encode(), place="policy.yaml", fmt="yaml")
    left = list(blanks(text))
    assert told.value.found == f"{len(left)} blanks: {', '.join(left)}"


@pytest.mark.parametrize("kit", GATES)
def test_so_do_its_limits_where_only_they_are_blank(kit: str) -> None:
    (text,) = template(kit).values()
    head, gates, rest = text.partition("\ngates:")
    policy, _ = load_policy((filled(head) + gates + rest).encode(), place="policy.yaml", fmt="yaml")
    left = [pointer for pointer in blanks(text) if pointer.startswith("/gates/")]
    with pytest.raises(Problem) as told:
        decode_gate(policy, kit, place="policy.yaml")
    assert told.value.found == f"{len(left)} blanks: {', '.join(left)}"


HOWTO = Path(__file__).parents[2] / "docs" / "howto"


@pytest.mark.parametrize(
    ("page", "kit"),
    [
        ("canary", "canary"),
        ("judge-retries", "retries"),
        ("keep-a-lab-off-locks", "leases"),
        ("leave-a-free-tier", "free-tier"),
        ("trace-a-webhook", "webhook-path"),
    ],
)
def test_the_policy_on_its_page_is_whole(page: str, kit: str) -> None:
    text = (HOWTO / f"{page}.md").read_text("utf-8")
    (block,) = [one for one in re.findall(r"```yaml\n(.*?)```", text, re.S) if "kind: policy" in one]
    policy, _ = load_policy(block.encode(), place="policy.yaml", fmt="yaml")
    assert isinstance(decode_gate(policy, kit, place="policy.yaml"), find(kit))


def test_evidence_plan_and_exception_on_the_canarys_page_are_read(tmp_path: Path) -> None:
    text = (HOWTO / "canary.md").read_text("utf-8")
    (evidence,) = re.findall(r"```json\n(.*?)```", text, re.S)
    (tmp_path / "metrics.json").write_text(evidence)
    assert open_metrics(tmp_path / "metrics.json", now_ns=0).metrics.baseline is not None
    blocks = re.findall(r"```yaml\n(.*?)```", text, re.S)
    (tmp_path / "plan.yaml").write_text(next(one for one in blocks if "kind: collector" in one))
    assert read_plan(tmp_path / "plan.yaml").service == "checkout"
    entries = strict.load(next(one for one in blocks if one.startswith("exceptions:")).encode(), place="x", fmt="yaml")
    (one,) = (strict.as_type(entry, Exemption, place="x") for entry in entries["exceptions"])
    assert wrong((one,), now_ns=parse_rfc3339("2026-11-30T16:00:00Z") or 0) == []
