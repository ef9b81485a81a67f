"""Random triggers of an application that change the rows of the statement which fires them.

A seed makes one table in some form (plain, partitioned, with partitions below partitions, with heirs, without a key), a
table that refers to it, random triggers and rules on both, also on single partitions, and random statements.
"""

import random
from collections.abc import Sequence

import psycopg

FORMS = ("plain", "plain", "parted", "parted", "deep", "heir", "keyless")
NAMES = ("!", "!DEMO_z", "A", "DEMO_", "RI_ConstraintTrigger", "a", "zz", "ß")
MOST = 300
"""Changes of a transaction that is not rolled back."""
CHANGED = """
SELECT sum(n_tup_ins + n_tup_upd + n_tup_del)::bigint FROM pg_stat_xact_user_tables WHERE relname NOT LIKE 'demo_%'
"""
COUNT_FIRING = """
CREATE FUNCTION public.count_firing() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    fired int := coalesce(nullif(current_setting('app.fired', true), ''), '0')::int;
BEGIN
    IF fired > 50 THEN
        RAISE EXCEPTION 'too often';
    END IF;
    PERFORM set_config('app.fired', (fired + 1)::text, true);
END $$
"""


class Attempt:
    """The tables, triggers and statements of one seed. `t`: the table, `l`: one that refers to it."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.t, self.l = f"public.t{seed}", f"public.l{seed}"
        self.seed = seed
        self.form = self.pick(FORMS)
        self.made = 0
        self.triggers = [self.trigger() for _ in range(self.chance.choice((1, 1, 2, 2, 3)))]
        self.later = self.triggers if self.chance.random() < 0.5 else []
        self.said: list[str] = []
        """The lines of a script that does the same."""

    def pick(self, among: Sequence[str]) -> str:
        return self.chance.choice(among)

    # Tables

    @property
    def places(self) -> list[str]:
        """Where triggers can be."""
        return {
            "parted": [self.t, f"{self.t}_1", f"{self.t}_1", f"{self.t}_2"],
            "deep": [self.t, f"{self.t}_1", f"{self.t}_2", f"{self.t}_2a", f"{self.t}_2a"],
            "heir": [self.t, f"{self.t}_heir"],
        }.get(self.form, [self.t])

    def on_master(self) -> list[str]:
        columns = "k int NOT NULL, id int NOT NULL, v int NOT NULL DEFAULT 0, note text"
        key = "" if self.form == "keyless" else ", PRIMARY KEY (k, id)"
        partitioned = self.form in ("parted", "deep")
        made = [f"CREATE TABLE {self.t} ({columns}{key}){' PARTITION BY LIST (k)' if partitioned else ''}"]
        if partitioned:
            made.append(f"CREATE TABLE {self.t}_1 PARTITION OF {self.t} FOR VALUES IN (1)")
            if self.form == "deep":
                made.append(
                    f"CREATE TABLE {self.t}_2 PARTITION OF {self.t} FOR VALUES IN (2, 3) PARTITION BY RANGE (id)"
                )
                made.append(f"CREATE TABLE {self.t}_2a PARTITION OF {self.t}_2 FOR VALUES FROM (MINVALUE) TO (8)")
                made.append(f"CREATE TABLE {self.t}_2b PARTITION OF {self.t}_2 FOR VALUES FROM (8) TO (MAXVALUE)")
            else:
                # Attached, with its columns in another order.
                made.append(
                    f"CREATE TABLE {self.t}_2 (note text, v int NOT NULL DEFAULT 0, id int NOT NULL, k int NOT NULL)"
                )
                made.append(f"ALTER TABLE {self.t} ATTACH PARTITION {self.t}_2 FOR VALUES IN (2, 3)")
        if self.form == "heir":
            made.append(f"CREATE TABLE {self.t}_heir (PRIMARY KEY (k, id)) INHERITS ({self.t})")
        acts = self.pick(("ON DELETE CASCADE ON UPDATE CASCADE", "ON DELETE CASCADE", "DEFERRABLE INITIALLY DEFERRED"))
        refers = "" if self.form == "keyless" else f", FOREIGN KEY (k, id) REFERENCES {self.t} {acts}"
        made.append(f"CREATE TABLE {self.l} (n int PRIMARY KEY, k int, id int{refers})")
        return [*made, *(trigger for trigger in self.triggers if not self.later)]

    def on_slave(self) -> list[str]:
        columns = "k int NOT NULL, id int NOT NULL, v int NOT NULL DEFAULT 0, note text"
        key = "" if self.form == "keyless" else ", PRIMARY KEY (k, id)"
        made = [f"CREATE TABLE {name} ({columns}{key})" for name in self.captured[:-1]]
        return [*made, f"CREATE TABLE {self.l} (n int PRIMARY KEY, k int, id int)"]

    @property
    def captured(self) -> list[str]:
        return [self.t, *([f"{self.t}_heir"] if self.form == "heir" else []), self.l]

    # Triggers

    def trigger(self) -> str:
        """A trigger and its function, or a rule."""
        self.made += 1
        place = self.pick(self.places) if self.chance.random() < 0.85 else self.l
        name = self.t.partition(".")[2]
        if self.chance.random() < 0.08:
            event, row = self.pick(("INSERT", "UPDATE", "DELETE")), "OLD"
            row = "NEW" if event == "INSERT" else row
            return (
                f"CREATE RULE r{self.made} AS ON {event} TO {self.l} DO ALSO "
                f"UPDATE {self.t} SET v = v + 1 WHERE k = {row}.k AND id = {row}.id"
            )
        event = self.pick(("INSERT", "UPDATE", "DELETE", "INSERT OR UPDATE", "INSERT OR UPDATE OR DELETE"))
        row = "OLD" if event == "DELETE" else "NEW"
        by_row = self.chance.random() < 0.85
        when = self.pick(("BEFORE", "AFTER", "AFTER"))
        body = self.action(place, row if by_row else None)
        if self.chance.random() < 0.3:
            # Through another function, called by an expression alone.
            takes, gives = ("int, int", f"{row}.k, {row}.id") if by_row else ("", "")
            inner = body.replace(f"{row}.k", "$1").replace(f"{row}.id", "$2")
            code = (
                f"CREATE FUNCTION public.i_{name}_{self.made}({takes}) RETURNS int LANGUAGE plpgsql AS "
                f"$$ BEGIN {inner}; RETURN 1; END $$; "
            )
            body, declared = f"x := public.i_{name}_{self.made}({gives})", "DECLARE x int; "
        else:
            code, declared = "", ""
        returned = ("COALESCE(NEW, OLD)" if "DELETE" in event else "NEW") if by_row and when == "BEFORE" else "NULL"
        kind, late = self.kind(place) if by_row and when == "AFTER" else ("TRIGGER", "")
        # At a commit every trigger has the depth 1, and those that fire each other do not end.
        bound = "PERFORM public.count_firing(); " if "INITIALLY DEFERRED" in late else ""
        depth = self.pick(("1", "1", "1", "2"))
        code += (
            f"CREATE FUNCTION public.f_{name}_{self.made}() RETURNS trigger LANGUAGE plpgsql AS $$ {declared}BEGIN "
            f"{bound}IF pg_trigger_depth() <= {depth} THEN "
            f"{_for_delete(body) if row == 'NEW' and 'DELETE' in event and by_row else body + ';'} "
            f"END IF; RETURN {returned}; END $$; "
        )
        trigger = f'"{self.pick(NAMES)}{self.made}"'
        code += (
            f"CREATE {kind} {trigger} {when} {event} ON {place} {late}FOR EACH {'ROW' if by_row else 'STATEMENT'} "
            f"EXECUTE FUNCTION public.f_{name}_{self.made}()"
        )
        how = self.pick(("", "", "", "ALWAYS", "REPLICA"))
        return code + (f"; ALTER TABLE {place} ENABLE {how} TRIGGER {trigger}" if how else "")

    def kind(self, place: str) -> tuple[str, str]:
        """Which kind of trigger, and when it fires; one on a partitioned table is no constraint trigger."""
        partitioned = self.form in ("parted", "deep") and place not in (self.l, f"{self.t}_1", f"{self.t}_2a")
        if partitioned or self.chance.random() < 0.75:
            return "TRIGGER", ""
        return "CONSTRAINT TRIGGER", self.pick(("DEFERRABLE INITIALLY DEFERRED ", "DEFERRABLE ", ""))

    def action(self, place: str, row: str | None) -> str:
        """A statement of a trigger's function; `row`: NEW or OLD."""
        if row is None:
            return self.pick((
                f"UPDATE {self.t} SET v = v + 1 WHERE id % 3 = 1",
                f"DELETE FROM {self.t} WHERE id = 5",
                f"UPDATE {self.t} SET note = concat(note, 's') WHERE v > 1",
            ))  # fmt: skip
        k, n = f"{row}.k", f"{row}.id"
        return self.pick((
            f"UPDATE {self.t} SET v = v + 1 WHERE k = {k} AND id > {n}",
            f"UPDATE {self.t} SET v = v + 1 WHERE k = {k} AND id < {n}",
            f"UPDATE {self.t} SET note = concat(note, 'x') WHERE k = {k} AND id = {n}",
            f"UPDATE {self.t} SET id = id + 20 WHERE k = {k} AND id = {n} + 1",
            f"UPDATE {self.t} SET k = k % 3 + 1 WHERE k = {k} AND id = {n} + 2",
            f"DELETE FROM {self.t} WHERE k = {k} AND id = {n} + 1",
            f"DELETE FROM {self.t} WHERE k = {k} AND id = {n}; INSERT INTO {self.t} VALUES ({k}, {n}, 7, 'again')",
            f"INSERT INTO {self.t} VALUES ({k}, {n} + 50, 1, 'made')"
            + ("" if self.form == "keyless" else " ON CONFLICT (k, id) DO UPDATE SET v = excluded.v + 1"),
            f"INSERT INTO {self.l} SELECT coalesce(max(n), 0) + 1, {k}, {n} FROM {self.l}",
            f"DELETE FROM {self.l} WHERE k = {k} AND id = {n}",
        ))  # fmt: skip

    # Statements

    def statement(self) -> str:
        """Some fail: they do not fit the rows."""
        k, n = self.chance.randrange(1, 4), self.chance.randrange(1, 12)
        target = self.pick(self.places) if self.chance.random() < 0.2 else self.t
        conflict = "" if self.form == "keyless" else self.pick((
            "", " ON CONFLICT DO NOTHING", " ON CONFLICT (k, id) DO UPDATE SET v = excluded.v + 10"
        ))  # fmt: skip
        rows = f"SELECT {k}, g, {n} FROM generate_series({n}, {n + 3}) g"
        return self.pick((
            f"INSERT INTO {target} (k, id, v) VALUES ({k}, {n}, 1), ({k}, {n + 1}, 1), ({k}, {n + 2}, 1){conflict}",
            f"INSERT INTO {self.t} (k, id, v) {rows}{conflict}",
            f"INSERT INTO {self.t} (k, id, v) SELECT k, id + 30, v FROM {self.t} WHERE k = {k}{conflict}",
            f"UPDATE {target} SET v = v + 1 WHERE id >= {n}",
            f"UPDATE {target} SET id = id + 100 WHERE k = {k}",
            f"UPDATE {self.t} SET k = k % 3 + 1 WHERE id = {n}",
            f"UPDATE {self.t} SET note = NULL",
            f"DELETE FROM {target} WHERE id > {n}",
            f"DELETE FROM {self.t} WHERE k = {k}",
            f"MERGE INTO {self.t} t USING ({rows}) s (k, id, v) ON t.k = s.k AND t.id = s.id "
            f"WHEN MATCHED AND s.id % 3 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET v = t.v + s.v "
            "WHEN NOT MATCHED THEN INSERT (k, id, v) VALUES (s.k, s.id, s.v)",
            f"WITH gone AS (DELETE FROM {self.t} WHERE id < {n} RETURNING *) "
            f"INSERT INTO {self.t} SELECT k, id, v + 1, 'moved' FROM gone",
            f"WITH gone AS (DELETE FROM {self.t} WHERE id < {n} RETURNING *) "
            f"INSERT INTO {self.t} SELECT k, id, v + 1, 'moved' FROM gone LIMIT 2",
            f"WITH a AS (UPDATE {self.t} SET v = -1 WHERE id = {n} RETURNING *), "
            f"b AS (UPDATE {self.t} SET v = -2 WHERE id = {n + 1}), "
            f"c AS (DELETE FROM {self.t} WHERE id = {n + 2}) INSERT INTO {self.t} (k, id) SELECT k, id + 200 FROM a",
            f"INSERT INTO {self.l} SELECT coalesce(max(n), 0) + 1, {k}, {n} FROM {self.l}",
            f"UPDATE {self.l} SET id = id WHERE k = {k}",
            f"DELETE FROM {self.l} WHERE k = {k}",
        ))  # fmt: skip

    def run(self, master: psycopg.Connection) -> None:
        """Runs one transaction; what does not fit is rolled back, like the rest of it."""
        said: list[str] = []
        try:
            with master.transaction():
                if self.chance.random() < 0.1:
                    copied = [(self.chance.randrange(1, 4), 300 + n + self.chance.randrange(20), 0) for n in range(3)]
                    said.append("\n".join([
                        f"COPY {self.t} (k, id, v) FROM STDIN;", *("\t".join(map(str, row)) for row in copied), "\\."
                    ]))  # fmt: skip
                    with master.cursor().copy(f"COPY {self.t} (k, id, v) FROM STDIN".encode()) as copy:
                        for row in copied:
                            copy.write_row(row)
                else:
                    for _ in range(self.chance.choice((1, 1, 1, 3))):
                        said.append(self.statement() + ";")
                        master.execute(said[-1].encode())
                (number,) = master.execute(CHANGED).fetchone() or (0,)
                # Triggers that fire each other may change a thousand rows for each row.
                if number > MOST:
                    said.clear()
                    raise psycopg.Rollback
        except psycopg.errors.QueryCanceled:
            return
        except psycopg.Error:
            pass
        self.said += ["BEGIN;", *said, "COMMIT;"]


def _for_delete(body: str) -> str:
    return f"IF TG_OP = 'DELETE' THEN {body.replace('NEW.', 'OLD.')}; ELSE {body}; END IF;"
