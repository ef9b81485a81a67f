"""PostgreSQL's regression suite: its files, data of its own for them, their order, and how psql runs them.

pglast on PyPI ships the suite's SQL files for its parser; they are fetched when a test needs them. What it does not
ship, the data that `COPY` reads and the C functions of `regress.so`, is made here, or lacks on both servers alike.
"""

import subprocess
import sys
import tarfile
from pathlib import Path

from devstack.postgres import PostgresServer
from devstack.rehearse.psql import run_file

SDISTS = {
    15: ("5.10", "e890582fbc18f01b00bc1724f17fff1396cc94d24ab37fba96aacc8fe742ed68"),
    16: ("6.17", "37d2fa080f22a73fb575c2655b6e28f1e3a084cf0466f96b15d227b4cfffc45e"),
    17: ("7.22", "d7ee5b5161cf31913a06fdab8615e9e02144761761c481002789f968b446d653"),
    18: ("8.8", "ff9998ec6bac4f30f84db6b6edb28a0fb03b1eda5c8ad211ab8362f5a08b833b"),
}
"""Release of PostgreSQL → the release of pglast that ships its suite, and the sdist's SHA-256. Release 14 runs that of
15, the nearest."""

FIRST = """
    test_setup tablespace boolean char name varchar text int2 int4 int8 oid float4 float8 bit numeric txid uuid enum
    money rangetypes pg_lsn regproc strings md5 numerology point lseg line box path polygon circle date time timetz
    timestamp timestamptz interval inet macaddr macaddr8 multirangetypes geometry horology tstypes regex type_sanity
    opr_sanity misc_sanity comments expressions unicode xid mvcc database stats_import copy copyselect copydml
    copyencoding insert insert_conflict create_function_c create_misc create_operator create_procedure create_table
    create_type create_schema create_index create_index_spgist create_view index_including index_including_gist
    create_aggregate create_function_sql create_cast constraints triggers select inherit typed_table vacuum
    drop_if_exists updatable_views roleattributes create_am hash_func errors infinite_recurse sanity_check select_into
    select_distinct select_distinct_on select_implicit select_having subselect union case join aggregates transactions
    random portals arrays btree_index hash_index update delete namespace prepared_xacts brin gin gist spgist privileges
    init_privs security_label collate matview lock replica_identity rowsecurity object_address tablesample groupingsets
    drop_operator password identity generated generated_stored join_hash brin_bloom brin_multi create_table_like
    alter_generic alter_operator misc async dbsize merge misc_functions sysviews tsrf tid tidscan tidrangescan
    collate.utf8 collate.icu.utf8 incremental_sort create_role without_overlaps generated_virtual rules psql
    psql_crosstab psql_pipeline amutils stats_ext collate.linux.utf8 collate.windows.win1252 select_parallel
    write_parallel vacuum_parallel maintain_every publication subscription select_views portals_p2 foreign_key cluster
    dependency guc bitmapops combocid tsearch tsdicts foreign_data window xmlmap functional_deps advisory_lock
    indirect_toast equivclass json jsonb json_encoding jsonpath jsonpath_encoding jsonb_jsonpath sqljson
    sqljson_queryfuncs sqljson_jsontable plancache limit plpgsql copy2 temp domain rangefuncs prepare conversion
    truncate alter_table sequence polymorphism rowtypes returning largeobject with xml partition_join partition_prune
    reloptions hash_part indexing partition_aggregate partition_info tuplesort explain compression compression_pglz
    memoize stats predicate numa oidjoins fast_default event_trigger event_trigger_login
"""
"""Files in the order in which they build on each other; a release has most of them. Its other files come after."""


def fetch(release: int, folder: Path) -> list[Path]:
    """Fetches the suite of a release (its nearest) into `folder`, and returns its files in order."""
    version, digest = SDISTS.get(release, SDISTS[min(SDISTS)])
    folder.mkdir(parents=True)
    wanted = folder / "requirements.txt"
    wanted.write_text(f"pglast=={version} --hash=sha256:{digest}\n")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    # The sdist's metadata is made by its setup.py, with what is installed here.
    command += ["--no-binary", ":all:", "--no-build-isolation", "--dest", str(folder), "-r", str(wanted)]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    with tarfile.open(folder / f"pglast-{version}.tar.gz") as archive:
        for member in archive:
            if "/postgres_regress/" in member.name and member.name.endswith(".sql"):
                read = archive.extractfile(member)
                assert read is not None
                (folder / Path(member.name).name).write_bytes(read.read())
    found = {file.stem: file for file in sorted(folder.glob("*.sql"))}
    order = [name for name in FIRST.split() if name in found]
    return [found[name] for name in (*order, *(name for name in found if name not in set(order)))]


def make_data(folder: Path) -> Path:
    """Writes the files that `COPY` of the suite reads, with rows of the same form as the suite's own; returns `folder`.

    The server's account can read them, and write into `results`.
    """
    folder.chmod(0o777)
    data = folder / "data"
    for made in (data, folder / "results"):
        made.mkdir(parents=True)
        made.chmod(0o777)
    for name, rows in (("onek", 1_000), ("tenk", 10_000)):
        _lines(data / f"{name}.data", (_wisconsin(number, rows) for number in range(rows)))
    people = [(f"name{n}", n % 80, f"({n % 9}.5,{n % 7})") for n in range(50)]
    _lines(data / "person.data", people)
    _lines(data / "emp.data", [(*row, 1000 + n, f"name{n % 5}") for n, row in enumerate(people[:10])])
    _lines(data / "student.data", [(*row, f"{n / 3:.2f}") for n, row in enumerate(people[:10])])
    _lines(data / "stud_emp.data", [(*row, 900 + n, "name1", f"{n / 3:.2f}", n) for n, row in enumerate(people[:5])])
    kinds = ("I- %d", "State Hwy %d", "Road %d")
    _lines(data / "streets.data", [(kinds[n % 3] % n, f"[({n},1),({n + 1},{n % 7})]") for n in range(300)])
    _lines(data / "real_city.data", [(1000 + n, f"[({n},0),({n + 1},5)]") for n in range(5)])
    _lines(data / "agg.data", [(56, 7.8), (100, 99.097), (0, 0.09561), (42, 324.78)])
    numbers = [(n * 7919 % 10007, n * 104729 % 1_299_709) for n in range(10_000)]
    _lines(data / "hash.data", numbers)
    _lines(data / "desc.data", sorted(numbers, reverse=True))
    _lines(data / "rect.data", [(f"({n % 971 + 5},{n % 613 + 7}),({n % 971},{n % 613})",) for n in range(3_000)])
    words = [f"AAAAAAAAAA{n}" for n in range(40)]
    _lines(
        data / "array.data",
        [
            (n, _array(range(n % 100, n % 100 + n % 6)), _array(words[(n * k) % 40] for k in range(1, n % 5 + 1)))
            for n in range(1, 101)
        ],
    )
    _lines(data / "constro.data", [(n, "!check failed" if n == 3 else "good", n) for n in range(1, 4)])
    _lines(data / "constrf.data", [(n, "check failed", 7 - n) for n in range(1, 4)])
    _lines(
        data / "jsonb.data", [(f'{{"line":{n}, "wait":"CC", "age":{n % 30}, "public":true}}',) for n in range(1_000)]
    )
    vectors = [(f"word{n % 17} wr qh", f"'qh':2 'wr':3 'eq{n % 31}':1") for n in range(500)]
    _lines(data / "tsearch.data", vectors)
    return folder


def _wisconsin(number: int, rows: int) -> tuple[object, ...]:
    """A row of the Wisconsin benchmark's table, which the suite's `onek` and `tenk1` are."""
    unique = number * 7919 % rows
    parts = [unique % each for each in (2, 4, 10, 20, 100, 1000, 2000, 5000, 10_000)]
    odd = unique % 100 * 2
    return (
        unique,
        number,
        *parts,
        odd,
        odd + 1,
        _name(unique),
        _name(number),
        ("AAAA", "HHHH", "OOOO", "VVVV")[number % 4] + "xx",
    )


def _name(number: int) -> str:
    letters = ""
    for _ in range(6):
        number, letter = divmod(number, 26)
        letters += chr(ord("A") + letter)
    return letters


def _array(values: object) -> str:
    return "{" + ",".join(map(str, values)) + "}"  # type: ignore[call-overload]


def _lines(file: Path, rows: object) -> None:
    file.write_text("".join("\t".join(map(str, row)) + "\n" for row in rows))  # type: ignore[attr-defined]


DATABASE = (
    "CREATE DATABASE regression TEMPLATE template0",
    *(
        f"ALTER DATABASE regression SET {name} TO '{value}'"
        for name, value in {
            **dict.fromkeys(("lc_messages", "lc_monetary", "lc_numeric", "lc_time"), "C"),
            "bytea_output": "hex",
            "timezone_abbreviations": "Default",
        }.items()
    ),
)
"""Statements that make the database, as `pg_regress` does."""


def run(server: PostgresServer, file: Path, files: Path) -> str:
    """Runs a file by psql in the database `regression`, as `pg_regress` does, and returns what it prints.

    `files`: a folder with `data` and `results` that the server's account can read and write.
    """
    environment = {
        "PGTZ": "America/Los_Angeles", "PGDATESTYLE": "Postgres, MDY", "PGAPPNAME": f"pg_regress/{file.stem}",
        "PG_ABS_SRCDIR": str(files), "PG_ABS_BUILDDIR": str(files), "PG_LIBDIR": str(files), "PG_DLSUFFIX": ".so",
        "LC_ALL": "C",
    }  # fmt: skip
    options = ("-a", "-q", "-v", "HIDE_TABLEAM=on", "-v", "HIDE_TOAST_COMPRESSION=on")
    return run_file(server.info("regression"), file, options, environment).replace(str(files), "FILES")
