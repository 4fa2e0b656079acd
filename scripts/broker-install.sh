#!/bin/sh
# Install a RabbitMQ server if there is none, without starting a system broker.
set -eu
cd "$(dirname "$0")/.."

find_server() {
    .venv/bin/python -c '
import sys
from consumer.core.errors import ConfigError
from consumer.edges.private_broker import find_server
try:
    find_server()
except ConfigError as error:
    sys.exit(str(error))
'
}

if find_server 2>/dev/null; then
    exit 0
fi
if ! sh scripts/apt-install.sh rabbitmq-server; then
    find_server
fi
find_server

# The server was not installed before, so nobody relies on its service.
echo "broker-install: rabbitmq-server is installed"
sh scripts/service-off.sh rabbitmq-server
