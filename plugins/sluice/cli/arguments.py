"""The options of the subcommands. With the standard library only: `--help` works before anything is installed."""

import argparse
import os
import re
from collections.abc import Sequence

from sluice.paths import PROGRAM
from sluice.redo import proxy

TABLES = "schema.table, with * for anything; several with commas, or the option repeated"


def tables_of(text: str) -> list[str]:
    """The tables of a list with commas; a name in double quotes may contain one."""
    return [name.strip() for name in re.findall(r'(?:"(?:[^"]|"")*"|[^,"\n]|")+', text) if name.strip()]


class Tables(argparse.Action):
    """An option for tables: given several times, or once with commas, or both."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[object] | None,
        option_string: str | None = None,
    ) -> None:
        setattr(namespace, self.dest, [*getattr(namespace, self.dest), *tables_of(str(values))])


ADD = """\
Adds a replication, or a slave to one, from the addresses of your databases.

1. Asks for what is not given, and tests both connections.
2. Finds what the account of the replication lacks on each server, and prints exactly the SQL that grants it; with an
   administrator's login (--admin) runs it after a confirmation. Without one, run it yourself, then start again.
3. Creates Airflow's connections and writes the replication's file (include/replications/SHOP.yaml).
4. Says what to do next; --start does it, and waits until the slave is NORMAL.

Every step can be done by hand: docs/privileges.md, docs/configuration.md, docs/airflow.md.
"""

ADD_EXAMPLES = f"""\
examples:
  {PROGRAM} add SHOP --master postgresql://db1.example/shop --slave dr1=postgresql://db2.example/shop --admin postgres
  {PROGRAM} add SHOP --slave dr2=postgresql://db3.example/shop --admin dr2=postgres    another slave of the same master
  {PROGRAM} add SHOP --master … --slave … --admin postgres --print-sql                 only prints what it would run
  {PROGRAM} add SHOP --start                                                           loads the slaves that need it

A URL is postgresql://account@host:port/database or mysql://…. The default account is 'sluice'; it is
created with a generated password if the server does not have it. A URL never has a password: passwords come from
PGPASSWORD, ~/.pgpass (or PGPASSFILE), MYSQL_PWD, or the terminal. An administrator's password is not stored, the
account's is stored in Airflow's connection. If the account's password is unknown, the administrator sets a new one
after a confirmation; --yes confirms this for the account 'sluice' only.
"""

REMOVE = """\
Removes what `add` and the DAGs created for a replication, or for one of its slaves:

- ends its applies and updates (in Airflow),
- on the master, with the last slave: triggers, queued changes, tables, functions, event triggers,
- on the slave: CHECKPOINT, BLOCKS and REJECTS. The replicated tables and their rows stay,
- its keys in Redis, the Airflow connections that `add` created, and the file, which is renamed to SHOP.yaml.removed.

After a failover each database loses what it has as a master and as a slave: a database that became read-only accepts
writes again.

With --revoke the account's privileges and memberships are revoked, too. Asks first.
"""

STATUS = """\
Shows the folders of replications in force, and every configured replication. Of the master: what is installed, how many
tables and rows, how much waits. Of each slave: state and message, its age, whether an apply runs, why and until when it
is in safe mode, who keeps the gate closed; rows, bytes, rate and estimated end of a load; and the time and position
through which each table is verified. A database that is down causes a message and delays the others by some seconds at
most.
"""

STATUS_PLACES = """\
Databases are found by Airflow's connections: AIRFLOW_CONN_… in the environment, else the API of --airflow, which
returns everything but passwords; those are in PGPASSWORD or ~/.pgpass. Redis is SLUICE_REDIS_URL.
"""

IMPORT = "Checks the folder of an initial update by files, and loads it into the slave."

IMPORT_PLACES = """\
The slave's database is taken from --database, or from PGHOST, PGPORT, PGDATABASE and PGUSER; its password from
PGPASSWORD or ~/.pgpass (MariaDB and MySQL: MYSQL_PWD), never from the command line. boto3 finds the credentials for S3:
AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, ~/.aws. Neither the master, Airflow nor Redis is needed. The command may be stopped
and run again at any time. When it is done, approve the transfer in Airflow.
"""

RECORD = "Records the changes of a master into a folder, from now on, until it is stopped."

RECORD_PLACES = """\
The master's database is taken from --database, or from PGHOST, PGPORT, PGDATABASE and PGUSER; its password from
PGPASSWORD or ~/.pgpass, never from the command line. The account is that of the replication. The capture must be
installed (DAGs install_resources and reconcile_tables). The command ends at SIGTERM or Ctrl-C, and continues there when
it is started again. docs/stream.md explains the files and their replay.

Of a MariaDB master (--database mysql://…) the binary log is read, and nothing is installed; its password is MYSQL_PWD.
What server and account need is told: docs/mariadb-master.md.
"""

PACK = """\
Packs the installed Python packages that tasks need, for Spark's executors without them, which must have the same system
and release of Python. docs/spark.md says how executors get the archive.
"""

REDO = """\
Merges the output of OpenLogReplicator for an Oracle master, a folder a redo thread, into a folder of changes that
slaves replay, until it is stopped.
"""

REDO_PLACES = """\
The command ends at SIGTERM or Ctrl-C, and continues there when it is started again. docs/redo.md explains the
configuration of OpenLogReplicator, the folders and the merge, docs/stream.md the replay by slaves.
"""


CAPTURE_REDO = """\
Reads a master's own log, until it is stopped, into the changes that slaves replay. With capture: redo it keeps one
OpenLogReplicator a redo thread of an Oracle master running, and merges their output; with capture: binlog it reads the
binary log of a MariaDB master.
"""

CAPTURE_REDO_PLACES = """\
Redis is SLUICE_REDIS_URL. Of several machines one captures, and another one takes over when it is gone. The command
ends at SIGTERM or Ctrl-C, and the next one continues there. The DAG capture_redo does the same: docs/redo.md,
docs/mariadb-master.md.
"""


REDO_PROXY = f"""\
Serves redo logs of this machine, or of ASM disk groups, to {PROGRAM} capture-redo on another one, until it is stopped.
It reads only files below the given roots, for clients that know the token.
"""

REDO_PROXY_PLACES = """\
The token is the content of --token-file, 16 characters at least; only this account may read that file. On any other
address than the loopback's, --certificate and --key are required. On a host where nothing may be installed, copy the
file plugins/sluice/redo/proxy.py and run it with Python 3.6 or later. docs/redo-proxy.md describes its answers.
"""


def arguments_of_add(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = ADD, ADD_EXAMPLES
    parser.add_argument("name", metavar="NAME", help="of the replication: SHOP gives the prefix SHOP_")
    parser.add_argument("--master", metavar="URL", help="the master's database")
    parser.add_argument(
        "--slave", action="append", default=[], metavar="NAME=URL", help="a slave's database; may be repeated"
    )
    parser.add_argument(
        "--tables",
        action=Tables,
        default=[],
        metavar="TABLES",
        help=f"which tables: {TABLES} (default: asked for; all schemas with --yes)",
    )
    parser.add_argument(
        "--creators",
        metavar="ROLES",
        help="roles that will make tables on a PostgreSQL master, with commas between them: the account gets "
        "privileges on what they make (default: asked for; the owners of the present tables are known)",
    )
    parser.add_argument(
        "--location",
        metavar="FOLDER",
        help="folder for the recorded log of a MariaDB master, which all machines with jobs have under this name "
        "(default: asked for; with the stack's own Airflow one of its state folder)",
    )
    parser.add_argument("--print-sql", action="store_true", help="only print the SQL that is needed")
    parser.add_argument(
        "--event-triggers",
        action="store_true",
        help="create event triggers on the master, so that slaves follow DDL at once; needs a superuser",
    )
    parser.add_argument("--start", action="store_true", help="trigger the initial update, wait until NORMAL")
    _common(parser)


def arguments_of_remove(parser: argparse.ArgumentParser) -> None:
    parser.description = REMOVE
    parser.add_argument("name", metavar="NAME", help="of the replication, as for add")
    parser.add_argument("--slave", metavar="NAME", help="one slave only; the others continue")
    parser.add_argument("--revoke", action="store_true", help="revoke the account's privileges, too")
    parser.add_argument(
        "--lost",
        action="append",
        default=[],
        metavar="SIDE",
        help="master, or a slave: skip its database, which no longer exists; may be repeated",
    )
    _common(parser)


def arguments_of_status(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = STATUS, STATUS_PLACES
    parser.add_argument(
        "prefix", nargs="?", metavar="PREFIX", help="its slaves as in Airflow's monitor; with SLAVE only that one"
    )
    parser.add_argument("slave", nargs="?", metavar="SLAVE")
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.add_argument(
        "--watch", action="store_true", help="all slaves as in Airflow's monitor, refreshed every two seconds"
    )
    _places(parser)


def arguments_of_import(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = IMPORT, IMPORT_PLACES
    parser.add_argument(
        "--location",
        required=True,
        metavar="PLACE",
        help="the folder or its parent: a directory or s3://bucket/…",
    )
    parser.add_argument("--slave", metavar="NAME", help="which slave this is; needed only if the folder is for several")
    parser.add_argument(
        "--database", metavar="URL", help="the slave's database: postgresql://user@host:port/name, or mysql://…"
    )
    parser.add_argument("--key-file", metavar="FILE", help="the key of encrypted files, in base64")
    parser.add_argument(
        "--parallel", type=int, default=2, metavar="N", help="files loaded at the same time (default 2)"
    )
    parser.add_argument("--check", action="store_true", help="check the files, load nothing")


def arguments_of_record(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = RECORD, RECORD_PLACES
    parser.add_argument("prefix", metavar="PREFIX", help="of the replication, SHOP_ or SHOP")
    parser.add_argument(
        "--location", required=True, metavar="FOLDER", help="where to write the files; created if missing"
    )
    parser.add_argument(
        "--database", metavar="URL", help="the master's database: postgresql://user@host:port/name, or mysql://…"
    )
    parser.add_argument("--schema", default="sluice", help="schema of the replication's objects (default sluice)")
    parser.add_argument(
        "--tables",
        action=Tables,
        default=[],
        metavar="LIST",
        help=f"of a MariaDB master the tables to record: {TABLES}; public is the URL's database (default public.*)",
    )
    parser.add_argument("--once", action="store_true", help="record the changes so far, and end")


def arguments_of_pack(parser: argparse.ArgumentParser) -> None:
    parser.description = PACK
    parser.add_argument("file", metavar="FILE", help="the archive, a name that ends in .tar.gz; some 150 MB")


def arguments_of_redo_proxy(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = REDO_PROXY, REDO_PROXY_PLACES
    proxy.add_arguments(parser)
    parser.add_argument(
        "--asm",
        metavar="URL",
        help="the ASM instance, if the roots are in its disk groups (+FRA/ORCL): oracle://sys@host:1521/+ASM; its"
        " password is ORACLE_PWD",
    )


def arguments_of_capture_redo(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = CAPTURE_REDO, CAPTURE_REDO_PLACES
    parser.add_argument("prefix", metavar="PREFIX", help="of the replication, SHOP_ or SHOP")
    parser.add_argument(
        "--database",
        metavar="URL",
        help="the master: oracle://user@host:1521/service, to list its archived logs, its password in ORACLE_PWD"
        " (default: no list); or mysql://user@host/database, whose log is read, its password in MYSQL_PWD",
    )


def arguments_of_redo(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = REDO, REDO_PLACES
    parser.add_argument("prefix", metavar="PREFIX", help="of the replication, SHOP_ or SHOP")
    parser.add_argument("--threads", required=True, metavar="FOLDER", help="the parent of the threads' folders")
    parser.add_argument(
        "--location", required=True, metavar="FOLDER", help="where to write the changes; created if missing"
    )
    parser.add_argument(
        "--exact-names", action="store_true", help="names stay as the master has them (default: SHOP becomes shop)"
    )
    parser.add_argument(
        "--silent-minutes",
        type=float,
        default=15.0,
        metavar="N",
        help="end if the other threads wait this long for one (default 15)",
    )
    parser.add_argument("--free", action="store_true", help="delete the threads' files once they are merged")
    parser.add_argument(
        "--ends-at",
        action="append",
        type=int,
        default=[],
        metavar="SCN",
        help="end a transaction of the stream there, for slaves that had triggers until then; may be repeated",
    )
    parser.add_argument("--once", action="store_true", help="merge the output so far, and end")


def _common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--admin",
        action="append",
        default=[],
        metavar="[SIDE=]LOGIN",
        help="an administrator: a user name, or a URL; for one side: master=postgres, dr1=postgres",
    )
    _places(parser)


def _places(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--airflow",
        metavar="URL",
        default=os.environ.get("SLUICE_AIRFLOW"),
        help=f"another Airflow than that of {PROGRAM} up (SLUICE_AIRFLOW), with a token in SLUICE_AIRFLOW_TOKEN or a"
        " log-in that it asks for; or 'none': print what to do there",
    )
    parser.add_argument(
        "--replications", metavar="DIR", help=f"folder of the file (default: the one in force, see {PROGRAM} status)"
    )


# The options of the subcommands that operate slaves. With the standard library only, as `arguments`.

PLACE = f"""\
Uses the Airflow of --airflow, with a token in SLUICE_AIRFLOW_TOKEN or a log-in that it asks for; without --airflow that
of {PROGRAM} up. The rights are those of the logged-in person; the reason goes into Airflow's audit log.
"""

ACT_EXAMPLES = f"""\
examples:
  {PROGRAM} act                                                    all actions
  {PROGRAM} act initiate SHOP_ dr1 dr2                             two slaves at once
  {PROGRAM} act reload SHOP_ dr1                                   the tables that are not loaded
  {PROGRAM} act reload SHOP_ dr1 --tables public.orders,public.lines
  {PROGRAM} act approve SHOP_ dr1                                  shows what waits for an answer
  {PROGRAM} act hold SHOP_ dr1 --why "its disk is replaced"

"""


def arguments_of_gate(parser: argparse.ArgumentParser) -> None:
    parser.description = "Shows who keeps a slave's gate closed; closes it, so that nothing is applied; opens it again."
    _pair(parser)
    parser.add_argument("action", choices=("show", "close", "open"), nargs="?", default="show", help="default: show")
    _done(parser)


def arguments_of_rejects(parser: argparse.ArgumentParser) -> None:
    parser.description = "Lists changes that were set aside, asks the running apply to apply them, or drops them."
    _pair(parser)
    parser.add_argument("action", choices=("list", "apply", "drop"), nargs="?", default="list", help="default: list")
    parser.add_argument("ids", nargs="?", metavar="IDS", help="numbers and ranges such as 7,9-12; or all")
    parser.add_argument("--force", action="store_true", help="apply: overwrite the rows in any case")
    _done(parser)


def arguments_of_verify(parser: argparse.ArgumentParser) -> None:
    parser.description = "Compares a slave with its master at one position, while both are in use."
    _pair(parser)
    parser.add_argument("--repair", action="store_true", help="make rows that differ equal to the master's")
    parser.add_argument("--tables", action=Tables, default=[], metavar="TABLES", help=f"{TABLES} (default: all)")
    parser.add_argument("--sample", type=int, default=0, metavar="ROWS", help="about how many rows of each; 0: all")
    _done(parser)


def arguments_of_logs(parser: argparse.ArgumentParser) -> None:
    parser.description = "Prints the log of a slave's apply."
    _pair(parser)
    parser.add_argument("--lines", type=int, default=200, metavar="N", help="number of last lines (default 200)")
    parser.add_argument("--follow", action="store_true", help="continue printing new lines")
    _airflow(parser)


def arguments_of_act(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Does the same as a button of the monitor. Without an action it lists all actions with their fields."
    )
    parser.epilog = ACT_EXAMPLES + PLACE
    parser.add_argument("action", nargs="?", metavar="ACTION", help="such as reload; without one all are listed")
    parser.add_argument("prefix", nargs="?", metavar="PREFIX", help="of the replication, SHOP_ or SHOP")
    parser.add_argument("slaves", nargs="*", metavar="SLAVE", help="its name in the configuration")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a field of the action")
    parser.add_argument("--tables", action=Tables, default=[], metavar="TABLES", help=f"{TABLES}; as --set tables=")
    _done(parser)


def _pair(parser: argparse.ArgumentParser) -> None:
    parser.epilog = PLACE
    parser.add_argument("prefix", metavar="PREFIX", help="of the replication, SHOP_ or SHOP")
    parser.add_argument("slave", metavar="SLAVE", help="its name in the configuration")


def _done(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--why", metavar="REASON", help="kept in Airflow's audit log; required by some actions")
    parser.add_argument("--no-wait", action="store_true", help="start the run, and do not wait for its end")
    _airflow(parser)


def _airflow(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--airflow", metavar="URL", default=os.environ.get("SLUICE_AIRFLOW"), help="the Airflow to use (SLUICE_AIRFLOW)"
    )
