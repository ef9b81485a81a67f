"""The options of the subcommands. Standard library alone: `--help` answers before anything is installed."""

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

A URL is postgresql://account@host:port/database, that of a slave also mysql://…; the account is 'sluice' where it names
none, and is made, with a generated password, where the server does not have it. Passwords are never part of a URL: they
come from PGPASSWORD, ~/.pgpass (or PGPASSFILE), MYSQL_PWD, or are asked for. That of an administrator is kept nowhere;
that of the account goes into Airflow's connection. An account whose password nobody knows any more gets a new one from
the administrator, after a yes; --yes is one for the account 'sluice' alone.
"""

REMOVE = """\
Takes back what `add` and the DAGs made for a replication, or for one of its slaves:

- ends its applies and updates (in Airflow),
- on the master, with the last slave: triggers, queued changes, tables, functions, event triggers,
- on the slave: CHECKPOINT, BLOCKS and REJECTS. The replicated tables and their rows stay,
- what Redis has of it, the Airflow connections that `add` made, and the file, which is moved to SHOP.yaml.removed.

After a failover each database is cleared of what it has as a master and as a slave: one that became read-only takes
writes again.

With --revoke the account's privileges and memberships are taken back as well. Asks first.
"""

STATUS = """\
Shows the folders of replications that are in force, and every configured replication: what is installed on the master,
how many tables and rows, how much waits; each slave's state and message, of which moment of the master it is, whether
an apply runs, in safe mode why and until when, who keeps the gate closed; while an initial update loads rows, bytes,
rate and estimated end; and through which time and position each table was verified.
A database that is down is said, and delays nothing by more than some seconds.
"""

STATUS_PLACES = """\
Databases are found by Airflow's connections: AIRFLOW_CONN_… in the environment, else the API of --airflow, which tells
all but passwords; those are in PGPASSWORD or ~/.pgpass. Redis is SLUICE_REDIS_URL.
"""

IMPORT = "Checks the folder of an initial update that travelled as files, and loads it into the slave."

IMPORT_PLACES = """\
The slave's database is taken from --database, or from PGHOST, PGPORT, PGDATABASE and PGUSER; its password from
PGPASSWORD or ~/.pgpass (MariaDB and MySQL: MYSQL_PWD), never from the command line. Credentials for S3 are found as
boto3 finds them: AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, ~/.aws. Neither the master, nor Airflow, nor Redis is reached.
May be stopped and run again at any moment. When it is through, approve the transfer in Airflow.
"""

RECORD = "Records the changes of a master into a folder, from now on, until it is stopped."

RECORD_PLACES = """\
The master's database is taken from --database, or from PGHOST, PGPORT, PGDATABASE and PGUSER; its password from
PGPASSWORD or ~/.pgpass, never from the command line. The account is that of the replication. The capture must be in
place (DAG install_resources and reconcile_tables). Ends at SIGTERM or Ctrl-C, and goes on where it ended when it is
started again. What the files hold, and how they are replayed: docs/stream.md.
"""

PACK = """\
Packs the Python packages that tasks need, as they are installed here, for Spark's executors that do not have them: the
same system and the same release of Python. docs/spark.md says how executors get the archive.
"""

REDO = """\
Merges what OpenLogReplicator has written of an Oracle master, a folder a redo thread, into a folder of changes that
slaves replay, until it is stopped.
"""

REDO_PLACES = """\
Ends at SIGTERM or Ctrl-C, and goes on where it ended when it is started again. How OpenLogReplicator is configured,
what the folders hold, and what is merged when: docs/redo.md. How slaves replay it: docs/stream.md.
"""


CAPTURE_REDO = """\
Reads the redo logs of an Oracle master: keeps one OpenLogReplicator a redo thread running, receives what they send, and
merges it into the changes that the slaves of a replication with capture: redo replay. Until it is stopped.
"""

CAPTURE_REDO_PLACES = """\
Redis is SLUICE_REDIS_URL. Started on several machines, one captures and the others take over when it is gone. Ends at
SIGTERM or Ctrl-C, with checkpoints from which the next one goes on. The DAG capture_redo does the same: docs/redo.md.
"""


REDO_PROXY = """\
Serves redo logs of this machine, or of disk groups of ASM, to ./sluice capture-redo elsewhere. Reads files below the
given roots alone, for clients that know the token. Until it is stopped.
"""

REDO_PROXY_PLACES = """\
The token is the content of --token-file, 16 characters at least; only this account may read that file. On another
address than the loopback's it needs --certificate and --key. What it answers: docs/redo-proxy.md.
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
    parser.add_argument(
        "--lost",
        action="append",
        default=[],
        metavar="SIDE",
        help="master, or a slave: its database is gone for ever, and the rest is removed; may be repeated",
    )
    _common(parser)


def arguments_of_status(parser: argparse.ArgumentParser) -> None:
    """Of `./sluice status`."""
    parser.description, parser.epilog = STATUS, STATUS_PLACES
    parser.add_argument(
        "prefix", nargs="?", metavar="PREFIX", help="its slaves as Airflow's monitor shows them; with SLAVE that one"
    )
    parser.add_argument("slave", nargs="?", metavar="SLAVE")
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.add_argument(
        "--watch", action="store_true", help="all slaves as Airflow's monitor shows them, again and again"
    )
    _places(parser)


def arguments_of_import(parser: argparse.ArgumentParser) -> None:
    """Of `./sluice import`."""
    parser.description, parser.epilog = IMPORT, IMPORT_PLACES
    parser.add_argument(
        "--location",
        required=True,
        metavar="PLACE",
        help="the folder, or what it lies in: a directory or s3://bucket/…",
    )
    parser.add_argument(
        "--slave", metavar="NAME", help="which slave this is; needed only where the folder is for several"
    )
    parser.add_argument(
        "--database", metavar="URL", help="the slave's database: postgresql://user@host:port/name, or mysql://…"
    )
    parser.add_argument("--key-file", metavar="FILE", help="the key of encrypted files, in base64")
    parser.add_argument(
        "--parallel", type=int, default=2, metavar="N", help="files loaded at the same time (default 2)"
    )
    parser.add_argument("--check", action="store_true", help="check the files, load nothing")


def arguments_of_record(parser: argparse.ArgumentParser) -> None:
    """Of `./sluice record`."""
    parser.description, parser.epilog = RECORD, RECORD_PLACES
    parser.add_argument("prefix", metavar="PREFIX", help="of the replication, SHOP_ or SHOP")
    parser.add_argument("--location", required=True, metavar="FOLDER", help="where the files go; made where absent")
    parser.add_argument("--database", metavar="URL", help="the master's database: postgresql://user@host:port/name")
    parser.add_argument("--schema", default="sluice", help="of the replication's objects there (default sluice)")
    parser.add_argument("--once", action="store_true", help="record what is there by now, and end")


def arguments_of_pack(parser: argparse.ArgumentParser) -> None:
    """Of `./sluice pack`."""
    parser.description = PACK
    parser.add_argument("file", metavar="FILE", help="the archive, its name with .tar.gz at the end; some 150 MB")


def arguments_of_redo_proxy(parser: argparse.ArgumentParser) -> None:
    """Of `./sluice redo-proxy`."""
    parser.description, parser.epilog = REDO_PROXY, REDO_PROXY_PLACES
    parser.add_argument(
        "--root", action="append", required=True, metavar="FOLDER", help="below it files are served; may be repeated"
    )
    parser.add_argument(
        "--asm",
        metavar="URL",
        help="the roots are in disk groups (+FRA/ORCL): of this ASM instance, oracle://sys@host:1521/+ASM; its password"
        " is ORACLE_PWD",
    )
    parser.add_argument("--token-file", required=True, metavar="FILE", help="holds what clients must send")
    parser.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="to listen on (default 127.0.0.1)")
    parser.add_argument("--port", type=int, default=9527, metavar="PORT", help="to listen on (default 9527)")
    parser.add_argument("--certificate", metavar="FILE", help="for TLS, in PEM")
    parser.add_argument("--key", metavar="FILE", help="the certificate's")


def arguments_of_capture_redo(parser: argparse.ArgumentParser) -> None:
    """Of `./sluice capture-redo`."""
    parser.description, parser.epilog = CAPTURE_REDO, CAPTURE_REDO_PLACES
    parser.add_argument("prefix", metavar="PREFIX", help="of the replication, SHOP_ or SHOP")
    parser.add_argument(
        "--database",
        metavar="URL",
        help="the master, oracle://user@host:1521/service, which is asked for its archived logs; its password is"
        " ORACLE_PWD (default: it is not asked)",
    )


def arguments_of_redo(parser: argparse.ArgumentParser) -> None:
    """Of `./sluice redo`."""
    parser.description, parser.epilog = REDO, REDO_PLACES
    parser.add_argument("prefix", metavar="PREFIX", help="of the replication, SHOP_ or SHOP")
    parser.add_argument("--threads", required=True, metavar="FOLDER", help="holds the threads' folders")
    parser.add_argument("--location", required=True, metavar="FOLDER", help="where the changes go; made where absent")
    parser.add_argument(
        "--exact-names", action="store_true", help="names stay as the master has them (default: SHOP becomes shop)"
    )
    parser.add_argument(
        "--silent-minutes",
        type=float,
        default=15.0,
        metavar="N",
        help="end when others wait so long for one thread (default 15)",
    )
    parser.add_argument("--free", action="store_true", help="delete the threads' files once they are merged")
    parser.add_argument(
        "--ends-at",
        action="append",
        type=int,
        default=[],
        metavar="SCN",
        help="end a transaction of the stream there, for slaves that had triggers up to it; may be repeated",
    )
    parser.add_argument("--once", action="store_true", help="merge what is there by now, and end")


def _common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--admin",
        action="append",
        default=[],
        metavar="[SIDE=]LOGIN",
        help="an administrator: a user name, or a URL; for one side alone: master=postgres, dr1=postgres",
    )
    _places(parser)
    parser.add_argument("--yes", action="store_true", help="ask nothing that a yes answers")


def _places(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--airflow",
        metavar="URL",
        help="another Airflow than that of ./sluice up, with a token in SLUICE_AIRFLOW_TOKEN or a log-in that is asked"
        " for; or 'none': what is to be done there is printed",
    )
    parser.add_argument(
        "--replications", metavar="DIR", help="folder of the file (default: the one in force, see ./sluice status)"
    )
