"""Who may hold the lock for which a session's wait timed out."""

from typing import Any

import pymysql

from sluice import sql_files
from sluice.vendors.mysql.errors import number_of

WAITED = 1205
"""A lock was not to be had in time."""
_NOT_ALLOWED = 1227


def sentence(driver: Any) -> str:
    """Names them, or the privilege by which they are seen; empty where nothing is found. Raises nothing: the error that
    led here is the one to tell."""
    try:
        with driver.cursor() as cursor:
            try:
                cursor.execute(sql_files.render("mysql", "lock_holders"))
            except pymysql.Error as error:
                if number_of(error) != _NOT_ALLOWED:
                    return ""
                cursor.execute("SELECT CURRENT_USER()")
                user, _, host = cursor.fetchone()[0].rpartition("@")
                account = f"{driver.escape(user)}@{driver.escape(host)}"
                return f" Who holds it shows to an account with PROCESS: GRANT PROCESS ON *.* TO {account}."
            rows = cursor.fetchall()
    except (pymysql.Error, OSError):
        return ""
    holders = [
        f"session {number} of {user}@{host} since {began:%Y-%m-%d %H:%M:%S} UTC" for number, user, host, began in rows
    ]
    return f" These transactions were open all the while, and one may hold it: {', '.join(holders)}." if holders else ""
