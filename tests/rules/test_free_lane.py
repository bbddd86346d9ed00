"""Who is a person and what is a free lane, by name: the misses of a search for four words, and its false alarms."""

import pytest

from drillmaster.rules.free_lane import free_lane, human, pinned_spec, shaky_runtime

FREE = [
    "free-lane",
    "free lane",
    "freelane",
    "FREE-LANE",
    "Free_Lane",
    "FreeLane",
    "free.lane",
    "free–lane",  # en dash
    "free\u2011lane",  # a hyphen that does not break
    "free\u00a0lane",
    "free\u200blane",  # no width
    "free\u00adlane",  # soft hyphen
    "frее-lane",  # Cyrillic
    "ﬀree-lane".replace("ﬀ", "f"),
    "ｆｒｅｅ－ｌａｎｅ",  # fullwidth
    "𝐟𝐫𝐞𝐞-𝐥𝐚𝐧𝐞",  # mathematical
    "frée-làne",
    "fr33-lane",
    "f r e e lane",
    "f.r.e.e.l.a.n.e",
    "my-free-lane-model",
    "myFreeLane",
    "free-models",
    "free-model-bot",
    "the free  server",
    "freeserver2",
    "Chat-Draft",
    "chat draft 3",
    "chatdraft",
    "human:free-lane",
]


@pytest.mark.parametrize("text", FREE)
def test_a_free_lane_is_found_however_it_is_spelled(text: str) -> None:
    assert free_lane(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "free",
        "lane",
        "jeffree-lane",
        "jeffree.lane",
        "freelancer",
        "human:freelancer",
        "freebsd-pinned-paid",
        "freeman",
        "carefree",
        "barrier free",
        "lane-free",
        "model free energy",
        "chat",
        "draft",
        "chatham draft",
        "Ольга",
    ],
)
def test_a_word_that_only_holds_it_is_none(text: str) -> None:
    assert not free_lane(text)


NOBODY = [
    None,
    "",
    "ada",
    "Human:ada",
    "human",
    "human：ada",  # another colon
    "hum\u0430n:ada",  # another a
    " human:ada",
    "human:",
    "human: ",
    "human:\u00a0",
    "human:\u200b",
    "human:ad\u200ba",
    "human:a\x00da",
    "human:ada\n",
    "human:-",
    "human:...",
    "human:42",
    "human:🙂",
    "human:tbd",
    "human:TODO",
    "human:to-do",
    "human:<name>",
    "human:unknown",
    "human:user1",
    "human:human",
    "human:human:",
    "human:n/a",
    "human:gpt-4o",
    "human:GPT4o",
    "human:gpt",
    "human:chatgpt",
    "human:ChatGPT",
    "human:o3-mini",
    "human:claude",
    "human:claude-sonnet",
    "human:claude-3",
    "human:Claude 4",
    "human:claude-code",
    "human:mistral",
    "human:mistral-large",
    "human:gemma-2-9b-it",
    "human:gemma3",
    "human:kimi-k2",
    "human:phi-3",
    "human:devin-ai",
    "human:falcon-40b",
    "human:o3",
    "human:b0t",
    "human:DeepSeek",
    "human:deepseek-v3",
    "human:llama-70b",
    "human:gemini-pro",
    "human:gеmini",  # Cyrillic e
    "human:copilot",
    "human:bot",
    "human:deploybot",
    "human:renovate[bot]",
    "human:ai",
    "human:ai-agent",
    "human:the assistant",
    "human:free lane bot",
    "human:freelane",
    "human:frее-lane",
    "human:free tier",
    "human:free-box",
    "human:chat-draft",
    "human-pinned:ada",
]


@pytest.mark.parametrize("text", NOBODY)
def test_who_is_no_person_is_told_apart(text: str | None) -> None:
    name, wrong = human(text)
    assert name == ""
    assert wrong


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("human:sre-oncall", "sre-oncall"),
        ("human:payments-tl", "payments-tl"),
        ("human:ada@example.com", "ada@example.com"),
        ("human:Ada Lovelace", "Ada Lovelace"),
        ("human: ada", "ada"),
        ("human:a", "a"),
        ("human:claude.dupont", "claude.dupont"),
        ("human:Jean-Claude", "Jean-Claude"),
        ("human:devin", "devin"),
        ("human:phi.tran", "phi.tran"),
        ("human:ai.nguyen", "ai.nguyen"),
        ("human:jeffree-lane", "jeffree-lane"),
        ("human:jane-free", "jane-free"),
        ("human:morgan.freeman", "morgan.freeman"),
        ("human:talbot", "talbot"),
        ("human:marie.chabot", "marie.chabot"),
        ("human:gabriela.mistral", "gabriela.mistral"),
        ("human:gemma", "gemma"),
        ("human:gemma.jones", "gemma.jones"),
        ("human:kimi", "kimi"),
        ("human:nova.li", "nova.li"),
        ("human:o2-oncall", "o2-oncall"),
        ("human:shift-2b", "shift-2b"),
        ("human:freelancer-anna", "freelancer-anna"),
        ("human:Ольга", "Ольга"),
        ("human:王秀英", "王秀英"),
        ("human:José", "José"),
        ("human:o'brien", "o'brien"),
        ("human:team1-lead", "team1-lead"),
    ],
)
def test_people_are_people(text: str, name: str) -> None:
    assert human(text) == (name, "")


@pytest.mark.parametrize(
    "text",
    [
        *(
            None,
            "",
            "ledger-v1",
            "human-pinned:",
            "human-pinned: ",
            "human-pinned:-",
            "human-pinned:tbd",
            "Human-pinned:x",
        ),
        *("human-pinned:free-lane-keys", "human-pinned:gpt-4o", "human-pinned:chat-draft", "human-pinned:a\u200bb"),
        *("model-pinned:ledger", "human:ledger-v1"),
    ],
)
def test_a_key_format_is_pinned_to_a_specification(text: str | None) -> None:
    name, wrong = pinned_spec(text)
    assert name == ""
    assert wrong


@pytest.mark.parametrize(
    "text", ["human-pinned:ledger-v1", "human-pinned:docs/keys.md", "human-pinned:agent-ledger-v1", "human-pinned:v1"]
)
def test_specifications_are_named_freely(text: str) -> None:
    assert pinned_spec(text)[1] == ""


@pytest.mark.parametrize(
    "text",
    [
        *(
            None,
            "",
            " ",
            "-",
            "42",
            "free",
            "FREE-server",
            "free-tier-vm",
            "freebox",
            "free tier",
            "Free2",
            "fr33-tier",
        ),
        *(
            "scratch-box",
            "SCRATCH",
            "my-sandbox",
            "spot-fleet",
            "preemptible-vm",
            "colab",
            "laptop",
            "hobby-dyno",
            "tmp1",
        ),
        *("paid-but-free", "frее-tier", "unpinned-box", "tbd", "none", "chat-draft", "pinned\u200b", "ada-macbook"),
        *("FreeTier", "freeTierBox", "free_forever"),
    ],
)
def test_a_runtime_that_is_free_or_goes_away_is_told(text: str | None) -> None:
    assert shaky_runtime(text)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "pinned-paid-path",
            "freebsd-pinned-paid",
            "FreeBSD 14",
            "eks-prod-payments",
            "k8s/payments/cutover",
            "nomad",
        ),
        *("freedom-datacentre", "freeipa-host", "payments-ctl-01.example.com", "freertos", "freeze-controller"),
        *("hotspot-jvm", "spotify-like", "demonstrably-owned", "serverless-paid", "FREEBSD-PINNED"),
    ],
)
def test_a_runtime_that_only_sounds_like_it_is_left_alone(text: str) -> None:
    assert shaky_runtime(text) == ""


@pytest.mark.parametrize(
    "text",
    [
        "human:ci",
        "human:CI-2",
        "human:jenkins",
        "human:ci pipeline",
        "human:human:ada",
        "human:ada human:bo",
        "human:ada|bo",
        *("human:ada & bo", "human:ada;bo", "human:ada：bo"),
    ],
)
def test_a_program_and_two_people_are_no_person(text: str) -> None:
    assert human(text)[1]


@pytest.mark.parametrize("name", ["Ci Nguyen", "Lovelace, Ada", "ada.script@example.com", "O\u2019Neil", "Ada C. Ito"])
def test_a_name_that_holds_a_programs_is_a_persons(name: str) -> None:
    assert human(f"human:{name}") == (name, "")


@pytest.mark.parametrize("text", ["replit", "my-devbox", "gitpod-1"])
def test_a_workbench_is_no_runtime(text: str) -> None:
    assert shaky_runtime(text)


@pytest.mark.parametrize("text", ["jenkins-prod", "pipeline-eu-1", "scheduler", "runner-pinned"])
def test_a_runtime_may_be_called_like_a_program(text: str) -> None:
    assert shaky_runtime(text) == ""


@pytest.mark.parametrize("name", ["раyments-tl", "Аda", "bеa@example.com", "οlga", "payments-tl and раy"])
def test_a_name_of_two_scripts_in_one_word_is_nobodys(name: str) -> None:
    assert human(f"human:{name}")[0] == ""


@pytest.mark.parametrize("name", ["Иван Petrov", "Ольга", "Νίκος-Brown", "Zoë", "Łukasz", "山田 Taro", "O'Brien"])
def test_a_name_of_one_script_a_word_is_somebodys(name: str) -> None:
    assert human(f"human:{name}") == (name, "")
