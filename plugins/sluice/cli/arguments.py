"""The options of `add` and `remove`. Standard library alone: `--help` answers before anything is installed."""

import argparse

ADD = """\
Adds a replication, or a slave to one: from the addresses of your databases to all that a replication needs.

1. Asks for what is not given, and tests both ends.
2. Finds what the account of the replication lacks on each server, and prints exactly the SQL that gives it; with an
   administrator's login (--admin) runs it after asking. Without one, run it yourself, then start again.
3. Makes Airflow's connections and writes the replication's file (include/replications/SHOP.yaml).
4. Says what to press next; --start presses it, and waits until the slave is NORMAL.

Every step can be done by hand: docs/privileges.md, docs/configuration.md, docs/airflow.md.
"""

ADD_EXAMPLES = """\
examples:
  ./sluice add SHOP --master postgresql://db1.example/shop --slave dr1=postgresql://db2.example/shop --admin postgres
  ./sluice add SHOP --slave dr2=postgresql://db3.example/shop --admin dr2=postgres    another slave of the same master
  ./sluice add SHOP --master … --slave … --admin postgres --print-sql                 what would be run, and no more
  ./sluice add SHOP --start                                                           loads the slaves that are not yet

A URL is postgresql://account@host:port/database; the account is 'sluice' where it names none, and is made, with a
generated password, where the server does not have it. Passwords are never part of a URL: they come from PGPASSWORD,
~/.pgpass (or PGPASSFILE), or are asked for. That of an administrator is kept nowhere; that of the account goes into
Airflow's connection.
"""

REMOVE = """\
Takes back what `add` and the DAGs made for a replication, or for one of its slaves:

- ends its applies and updates (in Airflow),
- on the master, with the last slave: triggers, queued changes, tables, functions, event triggers,
- on the slave: CHECKPOINT, BLOCKS and REJECTS. The replicated tables and their rows stay,
- what Redis has of it, the Airflow connections that `add` made, and the file, which is moved to SHOP.yaml.removed.

With --revoke the privileges of the account are taken back as well. Asks first.
"""


def arguments_of_add(parser: argparse.ArgumentParser) -> None:
    """Of `./sluice add`."""
    parser.description, parser.epilog = ADD, ADD_EXAMPLES
    parser.add_argument("name", metavar="NAME", help="of the replication: SHOP gives the prefix SHOP_")
    parser.add_argument("--master", metavar="URL", help="the master's database")
    parser.add_argument(
        "--slave", action="append", default=[], metavar="NAME=URL", help="a slave's database; may be repeated"
    )
    parser.add_argument(
        "--tables",
        action="append",
        default=[],
        metavar="PATTERN",
        help="which tables: schema.table or schema.*; may be repeated (default: asked for; all schemas with --yes)",
    )
    parser.add_argument("--print-sql", action="store_true", help="print the SQL that is needed, run and write nothing")
    parser.add_argument(
        "--event-triggers",
        action="store_true",
        help="make event triggers on the master, by which DDL is followed at once; the administrator is a superuser",
    )
    parser.add_argument("--start", action="store_true", help="trigger the initial update, wait until NORMAL")
    _common(parser)


def arguments_of_remove(parser: argparse.ArgumentParser) -> None:
    """Of `./sluice remove`."""
    parser.description = REMOVE
    parser.add_argument("name", metavar="NAME", help="of the replication, as for add")
    parser.add_argument("--slave", metavar="NAME", help="one slave only; the others go on")
    parser.add_argument("--revoke", action="store_true", help="take the account's privileges back as well")
    _common(parser)


def _common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--admin",
        action="append",
        default=[],
        metavar="[SIDE=]LOGIN",
        help="an administrator: a user name, or a URL; for one side alone: master=postgres, dr1=postgres",
    )
    parser.add_argument(
        "--airflow",
        metavar="URL",
        help="another Airflow than that of ./sluice up, with a token in SLUICE_AIRFLOW_TOKEN or a log-in that is asked"
        " for; or 'none': what is to be done there is printed",
    )
    parser.add_argument(
        "--replications", metavar="DIR", help="folder of the file (default: the one in force, see ./sluice status)"
    )
    parser.add_argument("--yes", action="store_true", help="ask nothing that a yes answers")
