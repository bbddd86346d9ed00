"""The proof of faults that read no byte of a client: a closed port, a connection that is reset when it is accepted."""

import pytest

from tests.scene import Answer, S, Scene, judged

FALLBACK = Answer(25, attempts=0)


def below_http(proof: str, *, baseline_attempts: int = 1, met: bool = True) -> Scene:
    """A run whose agent falls back at once, since no connection stands; nothing of it reaches the proxy meanwhile."""
    scene = Scene(
        lambda n, s, on: FALLBACK if on else Answer(20, attempts=baseline_attempts), mode="refused", marks=False
    )
    if met:
        scene.add(
            "events/proxy.jsonl", scene.inject_ns + S // 100, "fault_met",
            attempt=None, window="w1", client_bytes=0, proof=proof,
        )  # fmt: skip
    return scene


@pytest.mark.parametrize("proof", ["connections", "probe"])
def test_it_is_proven_by_what_the_proxy_did_and_by_the_traffic_before_it(proof: str) -> None:
    _, checks, _ = judged(below_http(proof))
    assert checks["proof"].status == "pass", checks["proof"]
    assert checks["fallback"].status == "pass", checks["fallback"]


@pytest.mark.parametrize("proof", ["connections", "probe"])
def test_an_agent_that_never_came_through_the_proxy_proves_nothing(proof: str) -> None:
    status, checks, _ = judged(below_http(proof, baseline_attempts=0))
    assert (status, checks["proof"].status) == ("refused", "refused")


def test_a_probe_that_was_never_refused_proves_nothing() -> None:
    status, checks, _ = judged(below_http("probe", met=False))
    assert (status, checks["proof"].status) == ("refused", "refused")


def test_bytes_are_asked_for_where_nothing_else_is_said() -> None:
    assert judged(below_http("bytes"))[1]["proof"].status == "refused"
