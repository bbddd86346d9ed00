"""The policies that `init` writes for canary and free tier: every blank explained, and whole once its examples stand in them."""

import re

import pytest

from drillmaster.errors import Problem
from drillmaster.gates import find
from drillmaster.intake.blanks import blanks, template
from drillmaster.judge import decode_gate, load_policy

KITS = ["canary", "free-tier", "workspace"]


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
    fields = {field for field in find(kit).__struct_fields__ if field not in ("baseline", "exceptions")}
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
