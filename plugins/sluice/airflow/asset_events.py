"""Events of Airflow's assets: other DAGs wait for a slave to be NORMAL, or to be verified as of a moment.

| alias | an event says | extra |
|---|---|---|
| `sluice-normal` | an initial update has ended: every reader sees a state that the master had | |
| `sluice-verified` | all tables of the slave were found identical | `as_of` of the oldest, `tables` |

`as_of` is a time of the master. Each event is one of the slave's own asset, such as `sluice://DEMO_/dr1/verified`, and
of the alias.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from airflow.sdk import Asset, AssetAlias, Context

NORMAL = AssetAlias("sluice-normal")
VERIFIED = AssetAlias("sluice-verified")


def tell(context: Context, what: AssetAlias, prefix: str, slave: str, extra: Mapping[str, Any]) -> None:
    """Airflow makes the event when the task succeeds, which must have `what` among its outlets."""
    word = what.name.removeprefix("sluice-")
    asset = Asset(name=f"{prefix} {slave} {word}", uri=f"sluice://{prefix}/{slave}/{word}")
    context["outlet_events"][what].add(asset, extra={"prefix": prefix, "slave": slave, **extra})


def tell_verified(context: Context, pairs: Iterable[Mapping[str, Any]], known: Iterable[str] = ()) -> list[str]:
    """Tells it of each of `pairs`, as a report has them, that is identical and not among `known`. Their names."""
    others, names = set(known), []
    for pair in pairs:
        name = f"{pair['prefix']} → {pair['slave']}"
        times = [str(table["position_time"]) for table in pair["tables"] if table["position_time"]]
        if pair["outcome"] != "identical" or name in others or not times:
            continue
        tell(context, VERIFIED, pair["prefix"], pair["slave"], {"as_of": min(times), "tables": len(pair["tables"])})
        names.append(name)
    return names
