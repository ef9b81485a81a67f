"""The report of a run as a page: one file, no script, nothing fetched, light and dark."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from html import escape
from typing import Any

from sluice.counted import counted

STYLE = """
:root { color-scheme: light dark; --ink: #1d2430; --soft: #5c6675; --line: #dfe3e9; --paper: #fff; --card: #f6f8fa;
  --good: #1a7f4b; --bad: #c0392b; --unknown: #a86a00; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ee; --soft: #9aa5b4; --line: #2e3743; --paper: #12161c;
  --card: #1a2029; --good: #4cc38a; --bad: #ff7b6b; --unknown: #e5b45a; } }
* { box-sizing: border-box }
body { margin: 0 auto; max-width: 72rem; padding: 2rem 1.25rem 4rem; color: var(--ink); background: var(--paper);
  font: 16px/1.5 system-ui, sans-serif }
h1 { font-size: 1.6rem; margin: 2.5rem 0 0 } h1:first-child { margin-top: 0 } h2 { font-size: 1.1rem; margin: 0 }
h2.free { margin-top: 2rem } p { margin: .4rem 0 } a { color: inherit }
.soft { color: var(--soft) } .identical { color: var(--good) } .different { color: var(--bad) }
.could-not-compare { color: var(--unknown) }
code, td.v { font-family: ui-monospace, monospace; font-size: .86em } td.v { overflow-wrap: anywhere; min-width: 6rem }
.scroll { overflow-x: auto } table { border-collapse: collapse; width: 100%; margin: .8rem 0 }
th, td { text-align: left; padding: .35rem 1rem .35rem 0; vertical-align: top; border-bottom: 1px solid var(--line) }
th:last-child, td:last-child { padding-right: 0 }
th { color: var(--soft); font-weight: 500; font-size: .86em; white-space: nowrap }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums } .one { white-space: nowrap }
td.why { min-width: 10rem; max-width: 20rem } td.why .soft { font-size: .86em }
section { background: var(--card); margin: 1.2rem 0; border: 1px solid var(--line); border-radius: 10px;
  padding: 1rem 1.2rem }
"""
WORDS = {"missing": "missing on the slave", "extra": "only on the slave", "different": "with other values"}


def page(reports: Iterable[Mapping[str, Any]]) -> str:
    """HTML of the reports (`report.as_dict`) of a run."""
    found = list(reports)
    title = ", ".join(f"{one['prefix']} → {one['slave']}" for one in found) or "nothing"
    body = "".join(_pair(f"p{number}", one) for number, one in enumerate(found))
    body = body or "<p>There was nothing to compare.</p>"
    data = "<p class=soft><a href='report.json'>The same as data</a> · <a href='../../'>All pairs, in Airflow</a></p>"
    return whole_page(f"Verification of {title}", body + data)


def whole_page(title: str, body: str) -> str:
    """A page of its own around HTML."""
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>{escape(title)}</title><style>{STYLE}</style><body>{body}</body></html>\n"
    )


def clock(text: object) -> str:
    """An ISO 8601 time for people, in UTC, to the second."""
    try:
        found = datetime.fromisoformat(str(text))
    except ValueError:
        return "–"
    found = found.astimezone(UTC) if found.tzinfo else found
    return found.strftime("%Y-%m-%d %H:%M:%S")


def _pair(anchor: str, report: Mapping[str, Any]) -> str:
    tables = report["tables"]
    rows = "".join(_line(f"{anchor}t{number}", table) for number, table in enumerate(tables))
    seconds = sum(table["seconds"] for table in tables)
    compared = sum(max(table["rows_master"], table["rows_slave"]) for table in tables)
    details = "".join(
        _details(f"{anchor}t{number}", table) for number, table in enumerate(tables) if _noteworthy(table)
    )
    ended = Counter(table["outcome"] for table in tables)
    summary = ", ".join(f"{count:,} {outcome_of(outcome)}" for outcome, count in ended.most_common())
    return (
        f"<h1>{escape(report['prefix'])} → {escape(report['slave'])}: {outcome_of(report['outcome'])}</h1>"
        f"<p>{counted(len(tables), 'table')}: {summary}.</p>"
        f"<p class=soft>Started {clock(report['started'])} UTC; {counted(compared, 'row')}, {seconds:.1f} s; "
        f"action {escape(report['action'])}.</p>"
        "<div class=scroll><table><tr><th>Table<th>Outcome<th class=n>Rows<th class=n>Missing<th class=n>Extra"
        f"<th class=n>Different<th class=n>Repaired<th>As of (UTC)</tr>{rows}</table></div>{details}"
    )


def _noteworthy(table: Mapping[str, Any]) -> bool:
    return bool(
        table["outcome"] != "identical"
        or table["sampled"]
        or table["examples"]
        or table["repaired"]
        or table["fell_back"]
        or table["waiting"]
    )


def _line(anchor: str, table: Mapping[str, Any]) -> str:
    name = escape(table["table"])
    if _noteworthy(table):
        name = f"<a href='#{anchor}'>{name}</a>"
    counts = [table[kind] for kind in ("rows_master", "missing", "extra", "different", "repaired")]
    compared = table["outcome"] != "could not compare"
    cells = "".join(f"<td class=n>{f'{count:,}' if compared or count else '–'}" for count in counts)
    return (
        f"<tr><td>{name}<td class=one>{outcome_of(table['outcome'])}{cells}"
        f"<td class=one>{clock(table['position_time'])}</tr>"
    )


def outcome_of(outcome: str) -> str:
    """An outcome in its colour."""
    return f"<span class={outcome.replace(' ', '-')}>{escape(outcome)}</span>"


def _details(anchor: str, table: Mapping[str, Any]) -> str:
    parts = [f"<section id={anchor}><h2>{escape(table['table'])}: {outcome_of(table['outcome'])}</h2>"]
    parts += [f"<p>{sentence}</p>" for sentence in _sentences(table)]
    if table["columns"]:
        named = ", ".join(f"<code>{escape(name)}</code> ({count:,})" for name, count in table["columns"].items())
        parts.append(f"<p>Columns that differ, in {counted(table['looked_at'], 'row')} looked at: {named}.</p>")
    if table["examples"]:
        parts.append(_examples(table["examples"]))
    parts.append("</section>")
    return "".join(parts)


def _sentences(table: Mapping[str, Any]) -> Iterable[str]:
    if table["reason"]:
        yield escape(table["reason"])
        return
    if table["sampled"]:
        share = f"{100 * table['upper_bound']:.3g}"
        yield (
            f"{counted(table['rows_master'], 'row')} of the master and {table['rows_slave']:,} of the slave were drawn "
            f"at random and looked for on the other side, as of {clock(table['position_time'])}: "
            f"{table['to_repair']:,} were wrong. With a confidence of 95 %, at most {share} % of either side's rows "
            "are."
        )
    else:
        yield _whole(table)
    if table["waiting"] is not None:
        yield (
            "The apply did not run: the slave was compared where it stands. "
            f"{counted(table['waiting'], 'change')} of this table waited for it."
        )
    for kind, words in WORDS.items():
        if table[kind]:
            cause = table["causes"].get(kind)
            said = f" That is no fault: {escape(cause)}." if cause else ""
            yield f"<b>{table[kind]:,}</b> {'row' if table[kind] == 1 else 'rows'} {words}.{said}"
    if table["set_aside"]:
        yield (
            f"The cause in <b>{table['set_aside']:,}</b> of these rows: changes of them were set aside in REJECTS. "
            "A repair mends the rows and settles the changes; the DAG rejects does so one by one."
        )
    for reason, count in table["causes"].get("rejects", {}).items():
        yield f"{count:,} × {escape(reason)}"
    if table["fell_back"]:
        yield f"Digests are MD5, because {escape(table['fell_back'])}."
    if table["repaired"]:
        after = table["after_repair"]
        changes = table["rejects_settled"]
        settled = f", {counted(changes, 'change')} in REJECTS settled" if changes else ""
        rows = counted(table["repaired"], "row")
        yield f"Repaired: <b>{rows}</b>{settled}; after that: {outcome_of(after['found'])}."
    if table["not_repaired_because"]:
        yield escape(table["not_repaired_because"])


def _whole(table: Mapping[str, Any]) -> str:
    return (
        f"{counted(table['rows_master'], 'row')} on the master, {table['rows_slave']:,} on the slave, both as of "
        f"{clock(table['position_time'])} UTC; different: {table['blocks_different']:,} of "
        f"{counted(table['blocks'], 'block')}. "
        f"It took {table['seconds']:.1f} s, and {1000 * table['apply_seconds']:.0f} ms of the apply."
    )


def _examples(examples: Iterable[Mapping[str, Any]]) -> str:
    rows = []
    for example in examples:
        names = list(example["master"] or example["slave"] or {})
        for place, name in enumerate(names):
            head = ""
            if place == 0:
                copies = f" × {example['copies']}" if example["copies"] > 1 else ""
                key = "<br>".join(f"{escape(column)} = {_value(value)}" for column, value in example["key"].items())
                cause = f"<br><span class=soft>{escape(example['cause'])}</span>" if example["cause"] else ""
                head = (
                    f"<td class=why rowspan={len(names)}>{escape(WORDS[example['kind']])}{copies}{cause}"
                    f"<td class=v rowspan={len(names)}>{key or 'no key'}"
                )
            sides = "".join(
                f"<td class=v>{_value(side[name]) if side is not None else ''}"
                for side in (example["master"], example["slave"])
            )
            rows.append(f"<tr>{head}<td class=one><code>{escape(name)}</code>{sides}</tr>")
    return (
        "<div class=scroll><table><tr><th>Row<th>Key<th>Column<th>Master<th>Slave</tr>"
        + "".join(rows)
        + "</table></div>"
    )


def _value(value: str | None) -> str:
    if value is None:
        return "<span class=soft>NULL</span>"
    return escape(value) if value else "<span class=soft>empty</span>"
