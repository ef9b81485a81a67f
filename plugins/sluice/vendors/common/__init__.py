"""Code that several vendors share whose DDL commits by itself: slaves of MySQL, MariaDB and Oracle."""
