"""What several vendors share: those whose DDL commits by itself, so far slaves of MySQL, MariaDB and Oracle."""
