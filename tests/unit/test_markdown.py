"""Questions to a person in Airflow show foreign names literally, whatever they contain."""

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from sluice.airflow.approval import _question
from sluice.airflow.kept_answer import code
from sluice.airflow.steps_failover import question as failover_question
from sluice.airflow.steps_resync import question

HOSTILE = [
    "[Approve here](http://evil.example)", "`x` [a](http://evil.example)", "``` [a](http://evil.example)", "``",
    "<http://evil.example>", "a\n\n# heading [a](http://evil.example)", "![](http://evil.example)", "`", " ` ",
]  # fmt: skip

FAILOVER: Any = SimpleNamespace(
    action="forced", slave=SimpleNamespace(name="dr1"), master_info=SimpleNamespace(server="h")
)


def links(text: str) -> list[Any]:
    """Links, images, headings and raw HTML, as CommonMark reads the text."""
    tokens = MarkdownIt("commonmark").parse(text)
    inner = [child for token in tokens for child in token.children or []]
    kinds = {"link_open", "image", "heading_open", "html_inline", "html_block"}
    return [(token.type, token.attrs) for token in [*tokens, *inner] if token.type in kinds]


@given(st.text(alphabet="`[]()<>!a:/#\n- _*", min_size=1, max_size=40) | st.sampled_from(HOSTILE))
def test_a_name_in_a_question_is_no_link(text: str) -> None:
    if text.strip():
        assert links(f"Copy {code(text)} to {code(text)}, then") == []
        listed = failover_question(FAILOVER, f"title\n{text}\nstate: {text}")
        assert links(listed) == []


@pytest.mark.parametrize("name", HOSTILE)
def test_questions_show_the_names_of_folders_and_tables_as_they_are(name: str) -> None:
    work: Any = SimpleNamespace(slave=SimpleNamespace(name="dr1"))
    asked = _question(work, f"/mnt/{name}", "http://airflow/log")
    assert [attrs for _, attrs in links(asked)] == [{"href": "http://airflow/log"}]
    finding = {"table": f'"{name}".t', "outcome": "different", "to_repair": 3, "after_repair": None, "repaired": 0}
    body = question([{"prefix": "DEMO_", "slave": "dr1", "tables": [finding]}])["body"]
    assert links(body) == [] and "3 rows" in body
