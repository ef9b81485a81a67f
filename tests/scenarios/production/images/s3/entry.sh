#!/bin/sh
# The part of chrislusf/seaweedfs' entry point that docker-compose.yaml relies on.
export GODEBUG=fips140=on
if [ "$(id -u)" = 0 ]; then
    if [ "$(stat -c %u /data)" != 1000 ]; then chown -R seaweed:seaweed /data; fi
    exec gosu seaweed "$0" "$@"
fi
if [ "$1" = server ]; then
    shift
    set -- -logtostderr=true server -dir=/data -master.volumeSizeLimitMB=1024 "$@"
fi
exec /usr/bin/weed "$@"
