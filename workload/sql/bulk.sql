-- A pgbench script for high rates: what fifty TPC-B transactions on one branch do, in one; 102 row changes.
-- Called by: devstack.demo.traffic, beside pgbench's own tpcb-like script. It keeps TPC-B's invariant: the balances of
-- accounts, tellers and branches, and the deltas of the history, have the same sum in every committed state.
\set first random(1, 100000 * :scale - 49)
\set bid random(1, :scale)
\set tid random(1, 10 * :scale)
\set delta random(-5000, 5000)
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid BETWEEN :first AND :first + 49;
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime)
    SELECT :tid, :bid, aid, :delta, CURRENT_TIMESTAMP FROM generate_series(:first, :first + 49) AS aid;
UPDATE pgbench_tellers SET tbalance = tbalance + 50 * :delta WHERE tid = :tid;
UPDATE pgbench_branches SET bbalance = bbalance + 50 * :delta WHERE bid = :bid;
END;
