"""The decisions of a verification: bounds of a sample, causes, outcomes, masks."""

from itertools import pairwise
from math import comb

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.configuration.options import VerifyOptions
from sluice.model.mask import Mask
from sluice.model.names import TableName
from sluice.verify.compare import upper_bound
from sluice.verify.findings import Kind, Outcome, causes
from sluice.verify.table_reads import BLOCKS_AT_ONCE, CLASSED_ROWS_AT_ONCE, ROWS_AT_ONCE, groups_of, sums, unequal
from tests.examples import examples


def test_nothing_wrong_in_n_rows_is_the_rule_of_three() -> None:
    for checked in (100, 1_000, 100_000):
        assert upper_bound(checked, 0) == pytest.approx(1 - 0.05 ** (1 / checked), rel=1e-6)
    assert upper_bound(100, 5) == pytest.approx(0.1023, abs=1e-4)
    assert upper_bound(0, 0) == upper_bound(3, 3) == 1.0


@given(st.integers(1, 2_000), st.data())
def test_a_bound_lies_above_the_share_that_was_seen(checked: int, data: st.DataObject) -> None:
    wrong = data.draw(st.integers(0, checked))
    assert wrong / checked <= upper_bound(checked, wrong) <= 1.0


@pytest.mark.long
@settings(max_examples=examples(60))
@given(st.integers(1, 80), st.floats(0.0005, 0.9995))
def test_the_true_share_lies_above_the_bound_in_five_of_a_hundred_samples_at_most(checked: int, share: float) -> None:
    """Computed exactly, over every number of wrong rows that can be drawn."""
    chance = sum(
        comb(checked, wrong) * share**wrong * (1 - share) ** (checked - wrong)
        for wrong in range(checked + 1)
        if upper_bound(checked, wrong) < share
    )
    assert chance <= 0.05 + 1e-9


@given(st.integers(2, 500), st.data())
def test_a_bound_is_no_larger_than_it_must_be(checked: int, data: st.DataObject) -> None:
    """Just below it, so few wrong rows are drawn more often than five in a hundred times."""
    wrong = data.draw(st.integers(0, checked - 1))
    share = upper_bound(checked, wrong) - 1e-6
    fewer = sum(comb(checked, n) * share**n * (1 - share) ** (checked - n) for n in range(wrong + 1))
    assert fewer > 0.05


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 9), st.integers(-(2**63), 2**63 - 1))), st.integers(1, 5))
def test_digests_of_parts_add_up_however_a_table_is_cut(rows: list[tuple[int, int, int]], parts: int) -> None:
    texts = [(block, count, str(digest)) for block, count, digest in rows]
    assert sums([texts]) == sums(texts[number::parts] for number in range(parts))


@given(st.lists(st.integers(0, 20_000), max_size=600), st.booleans())
def test_blocks_that_are_read_together_have_few_rows_and_each_is_read_once(sizes: list[int], ranges: bool) -> None:
    groups = groups_of(range(len(sizes)), lambda block: sizes[block], ranges=ranges)
    assert [block for group in groups for block in group] == list(range(len(sizes)))
    most = ROWS_AT_ONCE if ranges else CLASSED_ROWS_AT_ONCE
    for group in groups:
        assert sum(sizes[block] for block in group) <= most and (len(group) <= BLOCKS_AT_ONCE or not ranges)
    for group, following in pairwise(groups):
        size = sum(sizes[block] for block in group)
        assert size + sizes[following[0]] > most or (ranges and len(group) == BLOCKS_AT_ONCE)


def test_a_block_that_is_too_large_is_read_alone() -> None:
    assert groups_of([3, 5, 9], lambda block: ROWS_AT_ONCE + 1 if block == 5 else 1, ranges=True) == [[3], [5], [9]]


@given(st.dictionaries(st.integers(), st.integers()), st.dictionaries(st.integers(), st.integers()))
def test_unequal_names_every_difference_once(master: dict[int, int], slave: dict[int, int]) -> None:
    found = unequal(master, slave)
    assert len(found) == len(set(found))
    assert set(found) == {key for key in master.keys() | slave.keys() if master.get(key) != slave.get(key)}


def test_actions_that_are_not_replicated_explain_the_rows_they_leave() -> None:
    assert causes(frozenset("IUD")) == {}
    assert set(causes(frozenset("IU"))) == {Kind.EXTRA}
    assert set(causes(frozenset("ID"))) == {Kind.DIFFERENT}
    assert set(causes(frozenset())) == set(Kind)


def test_a_difference_outweighs_what_could_not_be_compared() -> None:
    one, other, none = Outcome.IDENTICAL, Outcome.DIFFERENT, Outcome.COULD_NOT_COMPARE
    assert Outcome.of([]) is Outcome.of([one]) is one
    assert Outcome.of([one, none]) is none and Outcome.of([none, other, one]) is other


def test_secrets_and_chosen_columns_are_masked() -> None:
    people = TableName("public", "people")
    assert Mask().hides(people, "Password_Hash") and Mask().hides(people, "api_key")
    assert not Mask().hides(people, "iban")
    assert Mask(("public.*.iban",)).hides(people, "iban") and not Mask(("other.*.iban",)).hides(people, "iban")


def test_tables_are_chosen_by_pattern() -> None:
    options = VerifyOptions(tables=("public.o*", "hr.people"))
    assert options.covers(TableName("public", "orders")) and options.covers(TableName("hr", "people"))
    assert not options.covers(TableName("public", "people"))
