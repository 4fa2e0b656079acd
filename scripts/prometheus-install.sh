#!/bin/sh
# Install Prometheus and promtool if they are missing, without starting the system's Prometheus.
set -eu
cd "$(dirname "$0")/.."

found() { command -v prometheus >/dev/null && command -v promtool >/dev/null; }

if found; then
    exit 0
fi
if ! sh scripts/apt-install.sh prometheus; then
    echo "prometheus-install: the tests need prometheus and promtool on PATH; install Prometheus 2.42 or newer" >&2
    exit 1
fi
found || { echo "prometheus-install: prometheus and promtool are still not on PATH" >&2; exit 1; }

# Prometheus was not installed before, so nobody relies on its service: keep it off at the next boot too.
if command -v update-rc.d >/dev/null; then
    if [ "$(id -u)" = 0 ]; then disable="update-rc.d"; else disable="sudo -n update-rc.d"; fi
    for service in prometheus prometheus-node-exporter; do
        $disable "$service" disable >/dev/null 2>&1 || true
    done
fi
echo "prometheus-install: prometheus is installed; its system service is off (update-rc.d prometheus enable)"
