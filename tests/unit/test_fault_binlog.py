"""The transactions in a MariaDB's binary log, from lines of `mariadb-binlog --verbose` of 10.11."""

import re

import pytest

from tests.scenarios.faults import binlog
from tests.scenarios.faults.audit import Commit

COLUMNS = {
    "log": ["writer", "n", "what"],
    "accounts": ["id", "balance", "version"],
    "moods": ["id", "mood", "version"],
    'Joins "late"': ["id", "v", "version"],
}
BEGIN = """
#261123 17:05:10 server id 1  end_log_pos 367 CRC32 0xb42b2011 \tGTID 0-1-{} trans
/*M!100001 SET @@session.gtid_seq_no=1*//*!*/;
START TRANSACTION
/*!*/;
"""
COMMIT = """
#261123 17:05:10 server id 1  end_log_pos 732 CRC32 0x0f1a9a91 \tXid = 23
COMMIT/*!*/;
"""
QUERY = """
#261123 17:05:10 server id 1  end_log_pos 1543 CRC32 0xe8f9361b \tQuery\tthread_id=7\texec_time=0\terror_code=0\txid=0
SET TIMESTAMP=1795453510/*!*/;
{}
/*!*/;
"""
LINE = """
#261123 17:05:10 server id 1  end_log_pos 416 CRC32 0x29f6681e \tTable_map: `shop`.`log` mapped to number 18
# at 416
#261123 17:05:10 server id 1  end_log_pos 498 CRC32 0xc730d971 \tWrite_rows: table id 18 flags: STMT_END_F
### INSERT INTO `shop`.`log`
### SET
###   @1=2
###   @2={}
###   @3='it's\\x0a### INSERT INTO `shop`.`log`\\x0a'
# Number of rows: 1
"""
END = """
DELIMITER ;
# End of log file
ROLLBACK /* added by mysqlbinlog */;
/*!50003 SET COMPLETION_TYPE=@OLD_COMPLETION_TYPE*/;
"""
NEXT_FILE = """
DELIMITER /*!*/;
# at 4
#261123 17:05:12 server id 1  end_log_pos 256 CRC32 0x8cda186a \tStart: binlog v 4, server v 10.11.19-MariaDB-log
# Warning: this binlog is either in use or was not closed properly.
ROLLBACK/*!*/;
#261123 17:05:12 server id 1  end_log_pos 299 CRC32 0x1a574458 \tGtid list [0-1-1]
"""
CHANGES = """
### INSERT INTO `other`.`log`
### SET
###   @1=1
###   @2=1
###   @3=NULL
### INSERT INTO `shop`.`moods`
### SET
###   @1=-1 (4294967295)
###   @2='a'
###   @3=3
### UPDATE `shop`.`accounts`
### WHERE
###   @1=1
###   @2=5
###   @3=8
### SET
###   @1=1
###   @2=6
###   @3=9
### UPDATE `shop`.`moods`
### WHERE
###   @1=1
###   @2='a'
###   @3=4
### SET
###   @1=1
###   @2='b'
###   @3=4
### INSERT INTO `shop`.`Joins "late"`
### SET
###   @1=7
###   @2=NULL
###   @3=5
### DELETE FROM `shop`.`accounts`
### WHERE
###   @1=1
###   @2=6
###   @3=9
"""


def read(*pieces: str) -> list[Commit]:
    return list(binlog.read("".join(pieces).encode().split(b"\n"), "shop", COLUMNS))


def lines(*numbers: int) -> str:
    return "".join(LINE.format(number) for number in numbers)


def test_each_transaction_is_one_commit_with_its_number() -> None:
    found = read(BEGIN.format(1), lines(1, 2), COMMIT, BEGIN.format(2), lines(3), QUERY.format("COMMIT"), END)
    assert found == [Commit(1, rows=2, logged=[(2, 1), (2, 2)]), Commit(2, rows=1, logged=[(2, 3)])]


def test_rows_are_read_with_the_versions_that_they_get() -> None:
    versions = {("moods", 3), ("accounts", 9), ('Joins "late"', 5)}
    assert read(BEGIN.format(1), CHANGES, COMMIT) == [Commit(1, rows=4, versions=versions)]


def test_rolled_back_transactions_are_no_commits() -> None:
    assert read(BEGIN.format(1), lines(1), QUERY.format("ROLLBACK"), BEGIN.format(2), lines(1), COMMIT) == [
        Commit(2, rows=1, logged=[(2, 1)])
    ]


def test_changes_rolled_back_to_a_savepoint_are_skipped() -> None:
    first, second = QUERY.format("SAVEPOINT `a``b`"), QUERY.format("SAVEPOINT `c`")
    back = QUERY.format("ROLLBACK TO `a``b`")
    pieces = (lines(1), first, lines(2), second, lines(3), back, lines(4), back, lines(5))
    assert read(BEGIN.format(1), *pieces, COMMIT) == [Commit(1, rows=2, logged=[(2, 1), (2, 5)])]


@pytest.mark.parametrize("end", [END, "\n"], ids=["at an event's end", "within an event"])
def test_the_number_of_a_cut_off_transaction_is_used_again(end: str) -> None:
    cut_off = BEGIN.format(1) + lines(1, 2) + end
    assert read(cut_off) == []
    assert read(cut_off, NEXT_FILE, BEGIN.format(1), lines(1), COMMIT) == [Commit(1, rows=1, logged=[(2, 1)])]


def test_rows_outside_of_a_transaction_are_an_error() -> None:
    with pytest.raises(ValueError, match=re.escape("rows outside of a transaction: ### INSERT INTO `shop`.`log`")):
        read(lines(1))
