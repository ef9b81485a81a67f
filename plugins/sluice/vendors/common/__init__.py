"""Code shared by vendors whose DDL commits implicitly: slaves of MySQL, MariaDB and Oracle."""
