"""Limits log lines that might come with every window."""

import logging

import pytest

from sluice.apply.log_limiter import LogLimiter


def test_a_few_lines_of_each_kind_are_followed_by_the_number_of_suppressed_ones(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    now = [100.0]
    seldom = LogLimiter(logging.getLogger("sluice.test"), most=2, seconds=60, clock=lambda: now[0])
    for number in range(5):
        seldom.log(logging.INFO, "a", f"a {number}")
    seldom.log(logging.INFO, "b", "100 % %s")
    assert caplog.messages == ["a 0", "a 1", "100 % %s"]
    now[0] += 61
    seldom.log(logging.INFO, "a", "a 5")
    assert caplog.messages[3:] == ["… and 3 more such lines in 61 s", "a 5"]
    now[0] += 61
    seldom.log(logging.INFO, "a", "a 6")
    assert caplog.messages[5:] == ["a 6"]
