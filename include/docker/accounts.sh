#!/bin/bash
# Makes the accounts of a master or slave, each with least privileges, when its server starts for the first time.
# Called by: the entry point of the image postgres (docker-compose.yaml), as the superuser of the new server.
# Variables: SLUICE_SIDE master or slave; POSTGRES_USER the superuser; SLUICE_SQL the folder with role.sql, grants.sql and
#   slave_grants.sql; SLUICE_PASSWORD_FILE holds the password of the account sluice.
# Result: the database shop; the role application, who owns the schema public there and cannot log in until an
#   administrator lets it; the account sluice; the schema sluice for its own objects.
set -euo pipefail

sql=${SLUICE_SQL:-/opt/sluice/sql}
password_file=${SLUICE_PASSWORD_FILE:-/run/secrets/sluice_password}

run() {
    psql --no-psqlrc --quiet --single-transaction --set ON_ERROR_STOP=1 --username "${POSTGRES_USER:-postgres}" "$@"
}

file() {
    sed -e 's/${role}/sluice/g' -e 's/${schema}/sluice/g' -e 's/${tables}/public/g' -e 's/${owner}/application/g' "$sql/$1"
}

psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 --username "${POSTGRES_USER:-postgres}" --dbname postgres \
    --command "CREATE DATABASE shop ENCODING 'UTF8' TEMPLATE template0"
file role.sql | run --dbname shop
# The password comes from the file to the server's socket: it is on no command line and in no log.
run --dbname shop <<SQL
\set password \`cat "$password_file"\`
SET LOCAL log_statement = 'none';
SET LOCAL log_min_error_statement = 'panic';
ALTER ROLE sluice PASSWORD :'password';
CREATE ROLE application NOLOGIN;
REVOKE ALL ON DATABASE shop FROM PUBLIC;
GRANT CONNECT, TEMPORARY ON DATABASE shop TO application;
REVOKE ALL ON SCHEMA public FROM PUBLIC;
CREATE SCHEMA sluice AUTHORIZATION sluice;
SQL
if [ "$SLUICE_SIDE" = master ]; then
    run --dbname shop --command 'ALTER SCHEMA public OWNER TO application'
    file grants.sql | run --dbname shop
else
    file slave_grants.sql | run --dbname shop
    # The application reads here.
    run --dbname shop --command 'GRANT USAGE ON SCHEMA public TO application' \
        --command 'ALTER DEFAULT PRIVILEGES FOR ROLE sluice IN SCHEMA public GRANT SELECT ON TABLES TO application'
fi
