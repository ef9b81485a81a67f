#!/bin/sh
# Makes the secrets of docker-compose.yaml in the folder $1: each file that is not there yet, for the user that reads it.
# No content is overwritten: to renew a certificate, remove its .crt and .key, and run this again.
# Called by: `docker compose run --rm secrets`, as root, with openssl in the image.
# Users: 50000 Airflow and Spark, 999 PostgreSQL and Redis in their images, 1000 the S3 server.
set -eu
umask 077
mkdir -p "$1"
chmod 0711 "$1" # nobody lists it
cd "$1"
made=0

word() { openssl rand -hex 24; }
make() { # OWNER MODE NAME CONTENT, without a newline at the end, which would be part of the secret
    if [ -e "$3" ]; then
        chmod "$2" "$3" # a person or an earlier release may have written it
        chown "$1:0" "$3"
        return
    fi
    printf %s "$4" > .new
    chmod "$2" .new
    chown "$1:0" .new
    mv .new "$3"
    made=$((made + 1))
}
certify() { # OWNER NAME HOST
    if [ -e "$2.crt" ] && [ -e "$2.key" ]; then
        make "$1" 0400 "$2.key"
        return
    fi
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=$3" -keyout .key -out .csr 2> /dev/null
    printf 'subjectAltName=DNS:%s' "$3" > .extension
    openssl x509 -req -in .csr -CA ca.crt -CAkey ca.key -set_serial "0x$(openssl rand -hex 16)" -days 825 -sha256 \
        -extfile .extension -out .crt 2> /dev/null
    rm -f "$2.crt" "$2.key" .extension .csr
    make "$1" 0400 "$2.key" "$(cat .key)"
    make 0 0444 "$2.crt" "$(cat .crt)"
    rm -f .key .crt
}

make 999 0400 metadata_password "$(word)"
make 50000 0400 metadata_url "postgresql+psycopg://airflow:$(cat metadata_password)@metadata/airflow"
make 50000 0400 metadata_url_async "postgresql+psycopg_async://airflow:$(cat metadata_password)@metadata/airflow"
make 50000 0400 fernet_key "$(openssl rand -base64 32 | tr '+/' '-_')"
make 50000 0400 api_secret_key "$(word)"
make 50000 0400 jwt_secret "$(word)$(word)"

# Of user postgres, who only administers the two servers, and of the replication's account there.
for side in master slave; do
    make 999 0400 "${side}_password" "$(word)"
    make 999 0400 "sluice_${side}_password" "$(word)"
done
make 50000 0400 spark_token "$(word)"
make 50000 0400 spark-defaults.conf "spark.authenticate true
spark.authenticate.secret $(word)
spark.network.crypto.enabled true
"
# Airflow's connections, by their names. Masters and slaves of yours belong here, too.
make 50000 0400 connections.yaml "shop_master:
  conn_type: postgres
  host: master
  port: 5432
  schema: shop  # the database
  login: sluice
  password: $(cat sluice_master_password)
  extra: {sslrootcert: /run/secrets/ca.crt}
shop_dr1:
  conn_type: postgres
  host: slave
  port: 5432
  schema: shop
  login: sluice
  password: $(cat sluice_slave_password)
  extra: {sslrootcert: /run/secrets/ca.crt}
spark_default:
  conn_type: spark_connect
  host: spark-connect
  port: 15002
  password: $(cat spark_token)
  extra: {use_ssl: true}
"

make 50000 0400 redis_url "rediss://sluice:$(word)@redis:6379/0?ssl_ca_certs=/run/secrets/ca.crt"
# Nobody logs in as default. But Redis replays its log as this user when it starts, and must not refuse transactions then.
make 999 0400 redis.acl "user default off ~* &* +@all
user sluice on >$(sed 's/^[^:]*:[^:]*:\([^@]*\)@.*/\1/' redis_url) ~sluice:* resetchannels &sluice:* +@read +@write +@connection +@transaction +@scripting +@pubsub
"
make 50000 0400 aws_credentials "[default]
aws_access_key_id = $(openssl rand -hex 10)
aws_secret_access_key = $(word)
"
make 1000 0400 s3.json "{\"identities\": [{\"name\": \"sluice\", \"actions\": [\"Admin\", \"Read\", \"List\", \"Tagging\", \"Write\"],
  \"credentials\": [{\"accessKey\": \"$(sed -n 's/^aws_access_key_id = //p' aws_credentials)\",
    \"secretKey\": \"$(sed -n 's/^aws_secret_access_key = //p' aws_credentials)\"}]}]}
"

# The authority of all certificates. Its key signs further ones: move it away if this machine is not to be trusted with it.
if [ ! -e ca.crt ]; then
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3650 -subj /CN=sluice \
        -keyout .key -out .crt 2> /dev/null
    make 0 0400 ca.key "$(cat .key)"
    make 0 0444 ca.crt "$(cat .crt)
" # other authorities may be written behind it
    rm -f .key .crt
fi
for name in master slave redis; do certify 999 "$name" "$name"; done
certify 1000 s3 s3
certify 50000 spark-connect spark-connect

echo "$made files made, $(find . -maxdepth 1 -type f | wc -l) there. Next: docker compose up"
