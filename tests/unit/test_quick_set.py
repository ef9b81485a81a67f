"""Whatever moves to the long tier, the quick one keeps a test of each guarantee, and of each way as a whole."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCENARIOS = "tests/scenarios"
WHOLE_WAYS = (
    f"{SCENARIOS}/with_airflow/test_newcomer_and_files.py::"
    "test_databases_are_added_compared_loaded_again_by_files_after_approval_and_removed",
    f"{SCENARIOS}/detached_apply/test_spark_executor.py::test_a_window_is_applied_by_executors",
    f"{SCENARIOS}/apply/test_safe_mode.py::test_the_example_of_the_seed_ends_as_described",
    f"{SCENARIOS}/faults/test_faults.py::test_each_change_arrives_exactly_once_under_faults",
    f"{SCENARIOS}/failover/test_planned.py::test_the_application_moves_over_with_all_it_had_committed",
    f"{SCENARIOS}/failover/test_reverse.py::test_the_former_master_follows_and_the_direction_is_turned_back",
    f"{SCENARIOS}/failover/test_forced.py::test_the_slave_goes_on_with_what_it_has",
    f"{SCENARIOS}/failover/test_killed.py::test_a_guard_that_was_half_released_is_made_again",
    f"{SCENARIOS}/detached_apply/test_clusters.py::test_an_executor_that_is_killed_is_replaced",
    f"{SCENARIOS}/with_airflow/test_devstack_airflow.py::test_no_socket_answers_without_credentials",
    f"{SCENARIOS}/verify/test_by_executors.py::"
    "test_executors_find_what_one_process_finds_under_traffic_and_their_jobs_say_which_table",
    f"{SCENARIOS}/initial_load/test_restart.py::"
    "test_killed_again_and_again_it_ends_equal_and_reads_no_stored_block_twice",
    f"{SCENARIOS}/many/test_cascade.py::"
    "test_applied_changes_are_passed_on_to_the_slaves_slaves_whenever_an_apply_is_killed",
    f"{SCENARIOS}/mariadb/test_whole_way.py::test_loaded_applied_and_proved_equal",
    f"{SCENARIOS}/stream/test_redo_supervisor.py::test_redo_of_two_threads_from_the_first_log_to_a_lost_one",
    f"{SCENARIOS}/releases/test_pairs.py::test_a_pair_of_releases_is_loaded_follows_and_is_fixed",
)


def guarantees() -> dict[str, list[str]]:
    """Of README's table: each guarantee with the files that test it."""
    table = (ROOT / "README.md").read_text().partition("## What is guaranteed\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1:3] for line in table.splitlines() if "`tests/" in line]
    return {text.strip(): re.findall(r"`(tests/[^`]+\.py)`", files) for text, files in rows}


def quick(file: str) -> set[str]:
    """The tests of a file that are not marked `long` as a whole."""
    module = ast.parse((ROOT / file).read_text())
    if any(
        isinstance(node, ast.Assign) and ast.unparse(node) == "pytestmark = pytest.mark.long" for node in module.body
    ):
        return set()
    return {
        node.name
        for node in module.body
        if isinstance(node, ast.FunctionDef)
        and node.name.startswith("test_")
        and "pytest.mark.long" not in map(ast.unparse, node.decorator_list)
    }


@pytest.mark.parametrize("guarantee", guarantees())
def test_each_guarantee_has_a_quick_test(guarantee: str) -> None:
    assert any(quick(file) for file in guarantees()[guarantee])


@pytest.mark.parametrize("way", WHOLE_WAYS)
def test_each_way_has_a_quick_test_of_the_whole(way: str) -> None:
    file, _, test = way.partition("::")
    assert test in quick(file)
