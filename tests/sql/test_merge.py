from sluice.apply import net
from sluice.domain.names import TableName
from sluice.vendors.postgres import connection
from sluice.vendors.postgres.merge import Merger
from tests.unit.changes import History


def test_the_net_changes_make_the_slave_equal(database):
    info = database()
    with connection.connect(info, application="t") as slave:
        slave.execute("CREATE TABLE public.t (id int PRIMARY KEY, v text)")
        slave.commit()
        h = History()
        h.insert("1", "a")
        h.insert("2", "b")
        h.insert("3", None)
        h.update(("2", "b"), ("2", ""))
        h.delete("1", "a")
        h.update(("3", None), ("7", "x\ty"))
        m = Merger(slave, "here", cascades=False)
        m.merge([net.reduce(net.events(h.window(), h.key))])
        assert sorted(slave.execute("SELECT id::text, v FROM public.t").fetchall()) == sorted(h.rows)
        n = len(h.items)
        h.update(("2", ""), ("3", "]]>"))
        h.update(("7", "x\ty"), ("2", "<&"))
        h.insert("9", "9")
        m.merge([net.reduce(net.events(h.window(n), h.key), before=True)])
        assert sorted(slave.execute("SELECT id::text, v FROM public.t").fetchall()) == sorted(h.rows)
        slave.commit()
