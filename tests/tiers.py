"""The cases of a test in the quick tier."""


def has_turn(place: int, cases: int, run_number: int) -> bool:
    """Whether the case at `place` of its test runs in the quick tier of this run, where one in `cases` does.

    Consecutive runs take the next ones: as many runs as `cases` run every case once.
    """
    return place % cases == run_number % cases
