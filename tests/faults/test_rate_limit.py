"""The fault `rate-limit`, played by hand."""

import pytest

from drillmaster.errors import Problem
from drillmaster.faults import make
from drillmaster.rules.retry_after import Told, Unreadable, read
from tests.faults.stage import Stage

NOW_S = 1_767_225_600  # where the stage's wall clock stands


def told(stage: Stage, **params: object) -> Told | Unreadable | None:
    played = stage.play(make("rate-limit", params))
    assert played.status == 429
    assert played.head is not None
    return read(played.head.headers, played.sent, now_s=NOW_S)


@pytest.mark.parametrize("wait_s", [0.02, 1, 60, 120, 121, 3600, 277_403])
@pytest.mark.parametrize("form", ["seconds", "ms", "date", "body"])
def test_each_form_says_the_wait_and_nothing_shorter(form: str, wait_s: float) -> None:
    found = told(Stage(), retry_after_s=wait_s, form=form)
    assert isinstance(found, Told)
    assert found.by == form
    assert wait_s - 1e-9 <= found.wait_s <= wait_s + (1 if form in ("seconds", "date") else 0.001)


def test_a_form_leaves_no_other_field_beside_it() -> None:
    wanted = {
        "seconds": {"retry-after"},
        "ms": {"retry-after-ms"},
        "date": {"retry-after"},
        "body": set(),
        "none": set(),
    }
    for form, names in wanted.items():
        params: dict[str, object] = {"form": form} | ({} if form == "none" else {"retry_after_s": 60})
        played = Stage().play(make("rate-limit", params))
        assert played.head is not None
        assert {name for name, _ in played.head.headers if name.startswith("retry-after")} == names


@pytest.mark.parametrize(
    "dialect, by",
    [("openai_chat", "ms"), ("anthropic", "seconds"), ("gemini", "body"), ("groq", "seconds"), ("mistral", None)],
)
def test_an_api_of_its_own_says_it_where_it_does(dialect: str, by: str | None) -> None:
    found = told(Stage(dialect), retry_after_s=60)
    assert (found.by if isinstance(found, Told) else found) == by


def test_said_nowhere_is_said_nowhere() -> None:
    for dialect in ("openai_chat", "anthropic", "gemini", "azure_openai", "groq"):
        assert told(Stage(dialect), form="none") is None


def test_it_never_heals() -> None:
    stage = Stage()
    for _ in range(5):
        assert stage.play(make("rate-limit", {"retry_after_s": 1})).status == 429
        stage.clock.advance(3600)


@pytest.mark.parametrize(
    "params, field",
    [
        ({}, "retry_after_s"),
        ({"retry_after_s": 0}, "retry_after_s"),
        ({"retry_after_s": -5}, "retry_after_s"),
        ({"retry_after_s": float("nan")}, "retry_after_s"),
        ({"retry_after_s": float("inf")}, "retry_after_s"),
        ({"retry_after_s": 1e10}, "retry_after_s"),
        ({"retry_after_s": "60"}, "retry_after_s"),
        ({"retry_after_s": 60, "form": "none"}, "retry_after_s"),
        ({"retry_after_s": 60, "form": "header"}, "form"),
    ],
)
def test_nonsense_is_refused_by_the_name_of_its_field(params: dict[str, object], field: str) -> None:
    with pytest.raises(Problem, match=field):
        make("rate-limit", params)
