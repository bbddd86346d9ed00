"""flagd's own provider reads the file that the flag server keeps, and sees what the server switches."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from openfeature import api
from openfeature.client import OpenFeatureClient
from openfeature.contrib.provider.flagd import FlagdProvider
from openfeature.contrib.provider.flagd.config import ResolverType
from openfeature.evaluation_context import EvaluationContext

from tests.e2e.flagslab import Lab, lab, until

pytestmark = pytest.mark.e2e


@pytest.fixture
def reading(short_dir: Path) -> Iterator[tuple[Lab, OpenFeatureClient]]:
    path = short_dir / "flagd.json"
    with lab(short_dir, flagd_path=str(path)) as server:
        api.set_provider_and_wait(
            FlagdProvider(resolver_type=ResolverType.FILE, offline_flag_source_path=str(path)), "flagd"
        )
        try:
            yield server, api.get_client("flagd")
        finally:
            api.shutdown()


def met(client: OpenFeatureClient, flag: str, of: int) -> int:
    keys = (EvaluationContext(targeting_key=f"m{number:06d}") for number in range(of))
    return sum(client.get_boolean_value(flag, False, key) for key in keys)


def test_what_is_switched_and_killed_is_read_from_the_file(reading: tuple[Lab, OpenFeatureClient]) -> None:
    server, client = reading
    assert (met(client, "toolError", 1), met(client, "refund", 1)) == (0, 0)
    server.enable("toolError")
    until(lambda: met(client, "toolError", 1) == 1)
    server.kill("refund")
    until(lambda: met(client, "refund", 1) == 1)
    told = client.get_boolean_details("refund", False)
    assert (told.variant, told.error_code, told.flag_metadata["kind"]) == ("on", None, "kill")
    server.disable("toolError")
    until(lambda: met(client, "toolError", 1) == 0)
    assert met(client, "refund", 1) == 1


def test_a_share_meets_as_many_by_flagds_own_lots(reading: tuple[Lab, OpenFeatureClient]) -> None:
    server, client = reading
    server.enable("toolError", share=0.3)
    until(lambda: met(client, "toolError", 50) > 0)
    assert 500 < met(client, "toolError", 2_000) < 700  # 600; a sixth either way is five deviations
