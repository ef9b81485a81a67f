"""Events of Airflow's assets: other DAGs can wait until a slave is NORMAL, or verified as of some time.

| alias | meaning of an event | extra |
|---|---|---|
| `sluice-normal` | an initial update has ended: every reader sees a state that the master had | |
| `sluice-verified` | all tables of the slave were found identical | `as_of` of the oldest, `tables` |

`as_of` is a time of the master. Each event belongs to the alias and to an asset of the slave, such as
`sluice://DEMO_/dr1/verified`.
"""

from collections.abc import Iterable, Mapping

from airflow.sdk import Asset, AssetAlias, Context

from sluice.verify.report_types import Report

NORMAL = AssetAlias("sluice-normal")
VERIFIED = AssetAlias("sluice-verified")


def add_event(context: Context, alias: AssetAlias, prefix: str, slave: str, extra: Mapping[str, str | int]) -> None:
    """Adds an event, which Airflow creates when the task succeeds. The task must have `alias` among its outlets."""
    topic = alias.name.removeprefix("sluice-")
    asset = Asset(name=f"{prefix} {slave} {topic}", uri=f"sluice://{prefix}/{slave}/{topic}")
    context["outlet_events"][alias].add(asset, extra={"prefix": prefix, "slave": slave, **extra})


def add_verified_events(context: Context, pairs: Iterable[Report], listed: Iterable[str] = ()) -> list[str]:
    """Adds an event for each identical pair of a report that is not `listed`; returns their names."""
    others, names = set(listed), []
    for pair in pairs:
        name = f"{pair['prefix']} → {pair['slave']}"
        times = [str(table["position_time"]) for table in pair["tables"] if table["position_time"]]
        if pair["outcome"] != "identical" or name in others or not times:
            continue
        add_event(
            context, VERIFIED, pair["prefix"], pair["slave"], {"as_of": min(times), "tables": len(pair["tables"])}
        )
        names.append(name)
    return names
