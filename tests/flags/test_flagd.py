"""The flagd file says the state, and no more than it can."""

from drillmaster.flags.flagd import flagd
from tests.flags.test_board import Told


def test_what_is_on_and_what_is_killed_stand_as_on() -> None:
    told = Told()
    told.put_on("w", "slow")
    told.board.kill("refund", "bea")
    flags = flagd(told.board)["flags"]
    assert {name: flag["defaultVariant"] for name, flag in flags.items()} == {
        "slow": "on",
        "broken": "off",
        "refund": "on",
    }
    assert all(flag["variants"] == {"on": True, "off": False} for flag in flags.values())


def test_a_share_is_a_fraction_and_what_cannot_be_said_is_off() -> None:
    from drillmaster.friday.flags import Switched

    told = Told()
    wanted = [Switched(flag="slow", share=0.3), Switched(flag="broken", first=1)]
    told.board.put_on(*told.board.prepare("w", wanted, 10, "lead"))
    flags = flagd(told.board)["flags"]
    assert flags["slow"]["targeting"] == {"fractional": [["on", 300], ["off", 700]]}
    assert (flags["broken"]["defaultVariant"], flags["broken"]["metadata"]["unexpressed"]) == (
        "off",
        "the first call of each mission",
    )
