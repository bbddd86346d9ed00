"""The drill's table: who may order what, and that no sequence of orders leaves a fault in place."""

import itertools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from drillmaster.clock import ManualClock
from drillmaster.conduct import FINAL, MOVES, SAID, Effect, Order, Role, State, effects, owner, step
from drillmaster.errors import Refused

TTL_S = 8.0


class Proxy:
    """An injector as the real one is: its fault ends when it is lifted, or when nobody renewed it in time."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._deadline_ns: int | None = None

    def do(self, effect: Effect) -> None:
        self._deadline_ns = self._clock.mono_ns() + round(TTL_S * 1e9) if effect is Effect.INJECT else None

    def renew(self) -> None:
        if self.on:
            self.do(Effect.INJECT)

    @property
    def on(self) -> bool:
        return self._deadline_ns is not None and self._clock.mono_ns() < self._deadline_ns


@pytest.mark.parametrize(
    ("state", "role", "order", "why"),
    [
        (State.BASELINE, Role.SCRIBE, Order.INJECT, "the Lead's"),
        (State.BASELINE, Role.VERIFIER, Order.INJECT, "the Lead's"),
        (State.INJECTED, Role.VERIFIER, Order.LIFT, "the Lead's"),
        (State.INJECTED, Role.SCRIBE, Order.STOP, "the Lead's"),
        (State.INJECTED, Role.LEAD, Order.NOTE, "the Scribe's"),
        (State.SEALED, Role.LEAD, Order.JUDGE, "the Verifier's"),
        (State.BASELINE, Role.GUARD, Order.INJECT, "the Lead's"),  # a guard can only stop
        (State.PREPARING, Role.LEAD, Order.INJECT, "baseline"),  # not before the baseline
        (State.RECOVERY, Role.LEAD, Order.INJECT, "baseline"),  # one injection a run
        (State.BASELINE, Role.LEAD, Order.LIFT, "under its fault"),
        (State.SEALED, Role.SCRIBE, Order.NOTE, "going on"),  # after the seal there are no lines
        (State.ABORTED, Role.LEAD, Order.STOP, "going on"),
    ],
)
def test_what_is_not_in_the_table_is_refused_and_says_whose_or_when(
    state: State, role: Role, order: Order, why: str
) -> None:
    with pytest.raises(Refused, match=why):
        step(state, role, order)


@pytest.mark.parametrize(("state", "role", "order"), list(itertools.product(State, Role, Order)))
def test_the_table_is_all_there_is(state: State, role: Role, order: Order) -> None:
    if (state, role, order) in MOVES:
        assert step(state, role, order).state is MOVES[state, role, order]
    else:
        with pytest.raises(Refused):
            step(state, role, order)


def test_only_lead_and_schedule_inject_and_lift_and_only_lead_and_guard_stop() -> None:
    def who(order: Order) -> set[Role]:
        return {role for _, role, given_order in MOVES if given_order is order}

    assert who(Order.INJECT) == who(Order.LIFT) == {Role.LEAD, Role.SCHEDULE}
    assert who(Order.START) == {Role.LEAD}
    assert who(Order.STOP) == {Role.LEAD, Role.GUARD}
    assert who(Order.NOTE) == {Role.SCRIBE}
    assert who(Order.JUDGE) == {Role.VERIFIER}


def test_a_fault_is_put_on_in_one_move_and_taken_off_in_every_move_out_of_it() -> None:
    for (before, _, _), after in MOVES.items():
        if after is State.INJECTED and before is not after:
            assert effects(before, after) == (Effect.INJECT,)
        if before is State.INJECTED and after is not before:
            assert effects(before, after) == (Effect.LIFT,)
        if after is State.STOPPING and before is not after:
            assert effects(before, after) == (Effect.LIFT,)


def test_every_live_state_can_be_stopped_and_every_stop_ends() -> None:
    for state in State:
        if state not in FINAL and state is not State.STOPPING:
            assert MOVES[state, Role.GUARD, Order.STOP] is State.STOPPING
    assert MOVES[State.STOPPING, Role.SCHEDULE, Order.SEAL] is State.ABORTED


def test_each_order_has_an_owner() -> None:
    assert {owner(order) for order in Order} == {Role.LEAD, Role.SCRIBE, Role.VERIFIER}


_ORDERS = st.tuples(st.sampled_from(Role), st.sampled_from(Order))
_LEAD = Role.LEAD


@given(st.lists(st.one_of(_ORDERS, st.floats(0, 20)), max_size=40))
@example([(_LEAD, Order.START), (_LEAD, Order.INJECT), (_LEAD, Order.STOP)])
@example([(_LEAD, Order.START), (_LEAD, Order.INJECT), (Role.GUARD, Order.STOP), (Role.SCHEDULE, Order.SEAL)])
@example([(_LEAD, Order.START), (_LEAD, Order.INJECT), 9.0])
@example([(_LEAD, Order.START), (_LEAD, Order.INJECT), (_LEAD, Order.INJECT), (_LEAD, Order.LIFT)])
def test_no_sequence_of_orders_leaves_a_fault_in_place(what: list[tuple[Role, Order] | float]) -> None:
    """A number is time that passes while the conductor renews; at the end the conductor is killed."""
    clock = ManualClock()
    proxy = Proxy(clock)
    state = State.PREPARING
    for item in what:
        if isinstance(item, float):
            for _ in range(int(item // 2)):
                clock.advance(2)
                proxy.renew()
            continue
        try:
            move = step(state, *item)
        except Refused:
            continue
        for effect in move.effects:
            proxy.do(effect)
        state = move.state
        assert proxy.on == (state is State.INJECTED)
        if state in FINAL:
            assert not proxy.on
    clock.advance(TTL_S)
    assert not proxy.on


@given(st.lists(_ORDERS, max_size=40))
def test_scribe_and_verifier_alone_never_move_a_drill(what: list[tuple[Role, Order]]) -> None:
    state = State.BASELINE
    for role, order in what:
        if role in (Role.SCRIBE, Role.VERIFIER):
            try:
                state = step(state, role, order).state
            except Refused:
                continue
    assert state is State.BASELINE


def test_a_person_hears_where_a_drill_is_in_words() -> None:
    assert set(SAID) == set(State)
    assert not [words for state, words in SAID.items() if words == str(state)]
