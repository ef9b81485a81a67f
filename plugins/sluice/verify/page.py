"""The report of a run as a page: one file, no script, nothing fetched, light and dark."""

from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

STYLE = """
:root { color-scheme: light dark; --ink: #1d2430; --soft: #5c6675; --line: #dfe3e9; --paper: #fff; --card: #f6f8fa;
  --good: #1a7f4b; --bad: #c0392b; --unknown: #a86a00; --mark: #fff1c9; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ee; --soft: #9aa5b4; --line: #2e3743; --paper: #12161c;
  --card: #1a2029; --good: #4cc38a; --bad: #ff7b6b; --unknown: #e5b45a; --mark: #3d3518; } }
* { box-sizing: border-box } body { margin: 0 auto; max-width: 72rem; padding: 2rem 1.25rem 4rem; color: var(--ink);
  background: var(--paper); font: 16px/1.5 system-ui, sans-serif } h1 { font-size: 1.6rem; margin: 0 }
h2 { font-size: 1.1rem; margin: 0 } p { margin: .4rem 0 } .soft { color: var(--soft) } .identical { color: var(--good) }
.different { color: var(--bad) } .could-not-compare { color: var(--unknown) } code, td.v { font-family: ui-monospace,
  monospace; font-size: .86em; overflow-wrap: anywhere } .scroll { overflow-x: auto } table { border-collapse: collapse;
  width: 100%; margin: .8rem 0 } th, td { text-align: left; padding: .35rem .7rem .35rem 0; vertical-align: top;
  border-bottom: 1px solid var(--line) } th { color: var(--soft); font-weight: 500; font-size: .86em }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums }
section { background: var(--card); margin: 1.2rem 0;
  border: 1px solid var(--line); border-radius: 10px; padding: 1rem 1.2rem } mark { background: var(--mark);
  color: inherit } a { color: inherit }
"""
WORDS = {"missing": "missing on the slave", "extra": "only on the slave", "different": "with other values"}


def page(reports: Iterable[Mapping[str, Any]]) -> str:
    """HTML of the reports (`report.as_dict`) of a run."""
    found = list(reports)
    title = ", ".join(f"{one['prefix']} → {one['slave']}" for one in found) or "nothing"
    body = "".join(_pair(one) for one in found) or "<p>There was nothing to compare.</p>"
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>Verification of {escape(title)}</title><style>{STYLE}</style><body>{body}</body></html>\n"
    )


def _pair(report: Mapping[str, Any]) -> str:
    tables = report["tables"]
    rows = "".join(_line(number, table) for number, table in enumerate(tables))
    seconds = sum(table["seconds"] for table in tables)
    compared = sum(max(table["rows_master"], table["rows_slave"]) for table in tables)
    details = "".join(_details(number, table) for number, table in enumerate(tables) if _noteworthy(table))
    return (
        f"<h1>{escape(report['prefix'])} → {escape(report['slave'])}: {_outcome(report['outcome'])}</h1>"
        f"<p class=soft>Started {escape(report['started'])} UTC. {len(tables)} tables, {compared:,} rows, "
        f"{seconds:.1f} s. Action: {escape(report['action'])}.</p>"
        "<div class=scroll><table><tr><th>Table<th>Outcome<th class=n>Rows<th class=n>Missing<th class=n>Extra"
        f"<th class=n>Different<th class=n>Repaired<th>As of</tr>{rows}</table></div>{details}"
    )


def _noteworthy(table: Mapping[str, Any]) -> bool:
    return bool(
        table["outcome"] != "identical"
        or table["sampled"]
        or table["examples"]
        or table["repaired"]
        or table["fell_back"]
    )


def _line(number: int, table: Mapping[str, Any]) -> str:
    name = escape(table["table"])
    if _noteworthy(table):
        name = f"<a href='#t{number}'>{name}</a>"
    counts = "".join(f"<td class=n>{table[kind] or '–'}" for kind in ("missing", "extra", "different"))
    return (
        f"<tr><td>{name}<td>{_outcome(table['outcome'])}<td class=n>{table['rows_master']:,}{counts}"
        f"<td class=n>{table['repaired'] or '–'}<td>{escape(table['position_time'])}</tr>"
    )


def _outcome(outcome: str) -> str:
    return f"<span class={outcome.replace(' ', '-')}>{escape(outcome)}</span>"


def _details(number: int, table: Mapping[str, Any]) -> str:
    parts = [f"<section id=t{number}><h2>{escape(table['table'])}: {_outcome(table['outcome'])}</h2>"]
    parts += [f"<p>{sentence}</p>" for sentence in _sentences(table)]
    if table["columns"]:
        named = ", ".join(f"<code>{escape(name)}</code> ({count:,})" for name, count in table["columns"].items())
        parts.append(f"<p>Of {table['looked_at']:,} rows looked at, these columns differ: {named}.</p>")
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
            f"{table['rows_master']:,} rows of the master and {table['rows_slave']:,} of the slave were drawn at "
            f"random and looked for on the other side, as of {escape(table['position_time'])}: "
            f"{table['to_repair']:,} were wrong. With a confidence of 95 %, at most {share} % of all rows are."
        )
    else:
        yield _whole(table)
    for kind, words in WORDS.items():
        if table[kind]:
            cause = table["causes"].get(kind)
            said = f" That is no fault: {escape(cause)}." if cause else ""
            yield f"<b>{table[kind]:,}</b> rows {words}.{said}"
    for reason, count in table["causes"].get("rejects", {}).items():
        yield f"A likely cause: {count:,} changes of this table wait in REJECTS, because {escape(reason)}"
    if table["fell_back"]:
        yield f"Digests are MD5, because {escape(table['fell_back'])}."
    if table["repaired"]:
        after = table["after_repair"]
        yield f"<b>{table['repaired']:,}</b> rows were repaired; after that: {_outcome(after['found'])}."
    if table["not_repaired_because"]:
        yield escape(table["not_repaired_because"])


def _whole(table: Mapping[str, Any]) -> str:
    return (
        f"{table['rows_master']:,} rows on the master, {table['rows_slave']:,} on the slave, both as of "
        f"{escape(table['position_time'])}; {table['blocks_different']:,} of {table['blocks']:,} blocks differ. "
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
                head = (
                    f"<td rowspan={len(names)}>{escape(WORDS[example['kind']])}{copies}"
                    f"<td class=v rowspan={len(names)}>{key or 'no key'}"
                )
            sides = "".join(
                f"<td class=v>{_value(side[name]) if side is not None else ''}"
                for side in (example["master"], example["slave"])
            )
            rows.append(f"<tr>{head}<td><code>{escape(name)}</code>{sides}</tr>")
    return (
        "<div class=scroll><table><tr><th>Row<th>Key<th>Column<th>Master<th>Slave</tr>"
        + "".join(rows)
        + "</table></div>"
    )


def _value(value: str | None) -> str:
    if value is None:
        return "<span class=soft>NULL</span>"
    return escape(value) if value else "<span class=soft>empty</span>"
