"""When an apply asks for a comparison of definitions."""

from sluice.model.comparison_trigger import ASK_SECONDS, ComparisonTrigger


def test_it_asks_at_first_and_when_something_is_new() -> None:
    watch = ComparisonTrigger()
    assert watch.asks("a", 0.0)
    assert not watch.asks("a", 10 * ASK_SECONDS)
    assert watch.asks("b", 10 * ASK_SECONDS)


def test_frequent_changes_are_compared_twice_a_minute_and_none_is_missed() -> None:
    watch = ComparisonTrigger()
    assert watch.asks("a", 0.0)
    assert not watch.asks("b", 1.0)
    assert not watch.asks("c", ASK_SECONDS - 1)
    assert watch.asks("c", ASK_SECONDS)
    assert not watch.asks("c", 5 * ASK_SECONDS)


def test_an_unchanged_state_is_not_compared_again() -> None:
    watch = ComparisonTrigger()
    assert watch.asks("a", 0.0)
    assert not watch.asks("b", 1.0)
    assert not watch.asks("a", ASK_SECONDS)
