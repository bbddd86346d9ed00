import pytest

from drillmaster.errors import Problem, Refused
from drillmaster.standins import check_host


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "10.0.0.1"])
def test_an_address_that_others_can_reach_is_refused_until_it_is_said_twice(host: str) -> None:
    with pytest.raises(Refused) as refused:
        check_host(host, None)
    assert f"--allow-host {host}" in refused.value.remedy
    with pytest.raises(Refused):
        check_host(host, "10.0.0.9")
    check_host(host, host)


def test_a_name_that_is_no_address_is_a_problem() -> None:
    with pytest.raises(Problem):
        check_host("example.test", None)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_loopback_needs_no_second_word(host: str) -> None:
    check_host(host, None)
