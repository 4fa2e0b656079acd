#!/bin/sh
# Install a PostgreSQL server if there is none, without starting a system database.
#
# Debian's package makes and starts a cluster called "main", unless createcluster.conf forbids it.
# Source: createcluster.conf(5), create_main_cluster.
set -eu
cd "$(dirname "$0")/.."

find_server() {
    .venv/bin/python -c '
import sys
from tests.support.processes.postgres import NoServerError, find_server
try:
    find_server()
except NoServerError as error:
    sys.exit(str(error))
'
}

if find_server 2>/dev/null; then
    exit 0
fi
if [ "$(id -u)" = 0 ]; then
    as_root() { "$@"; }
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    as_root() { sudo -n "$@"; }
else
    echo "postgres-install: no rights to install postgresql; run as root: sh scripts/postgres-install.sh" >&2
    exit 1
fi

# Install the package that reads the file, change the file, install the server, and restore the file.
conf=/etc/postgresql-common/createcluster.conf
restore() { if [ -e "$conf.before-leveret" ]; then as_root mv -f "$conf.before-leveret" "$conf"; fi; }
restore # an earlier run may have been killed before it restored the file
trap restore EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
sh scripts/apt-install.sh postgresql-common
as_root cp -p "$conf" "$conf.before-leveret"
printf 'create_main_cluster = false\n' | as_root tee -a "$conf" >/dev/null
sh scripts/apt-install.sh postgresql
find_server
echo "postgres-install: postgresql is installed; there is no system database (pg_createcluster makes one)"
