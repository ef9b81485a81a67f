-- Creates a slave's database, and an account with the privileges that a replication needs in it, and no others.
-- Called by: an administrator, once on each slave's server:
--   sed -e 's/${role}/sluice/g' -e 's/${database}/shop/g' -e 's/${pattern}/shop/g' slave_account.sql | mariadb -h HOST -u root -p
-- and then, since nobody can log in before, in that client: ALTER USER 'sluice'@'%' IDENTIFIED BY '…' ACCOUNT UNLOCK;
-- Placeholders: ${role} the account; ${database}; ${pattern}: the same with `\_` and `\%` for `_` and `%`, which are
--   wildcards in a grant.
-- Result: none. An existing database or account is not changed.
-- Privileges: CREATE, CREATE USER, those that are granted with GRANT OPTION, and SUPER (MySQL: SYSTEM_VARIABLES_ADMIN).
-- Oldest version: MariaDB 10.6, MySQL 8.0.
CREATE DATABASE IF NOT EXISTS `${database}`;
CREATE USER IF NOT EXISTS '${role}'@'%' ACCOUNT LOCK;
GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, DROP, INDEX, REFERENCES, CREATE TEMPORARY TABLES, TRIGGER
    ON `${pattern}`.* TO '${role}'@'%';
-- Rows are loaded by LOAD DATA LOCAL. For the next start of the server: local_infile = 1 in its configuration.
SET GLOBAL local_infile = 1;
