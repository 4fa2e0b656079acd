#!/bin/sh
# Install Prometheus and Alertmanager with their tools if they are missing, without starting system services.
set -eu
cd "$(dirname "$0")/.."

has() { command -v "$1" >/dev/null; }

packages=""
services=""
if ! has prometheus || ! has promtool; then
    packages="prometheus"
    services="prometheus prometheus-node-exporter"
fi
if ! has amtool || ! { has prometheus-alertmanager || has alertmanager; }; then
    packages="$packages prometheus-alertmanager"
    services="$services prometheus-alertmanager"
fi
if [ -z "$packages" ]; then
    exit 0
fi
# shellcheck disable=SC2086 # each word is a package
if ! sh scripts/apt-install.sh $packages; then
    echo "prometheus-install: the tests need prometheus, promtool, alertmanager and amtool on PATH;" \
        "install Prometheus 2.42 and Alertmanager 0.25, or newer" >&2
    exit 1
fi
has promtool && has amtool || { echo "prometheus-install: promtool or amtool is still not on PATH" >&2; exit 1; }

# They were not installed before, so nobody relies on their services: keep those off at the next boot too.
if has update-rc.d; then
    if [ "$(id -u)" = 0 ]; then disable="update-rc.d"; else disable="sudo -n update-rc.d"; fi
    for service in $services; do
        $disable "$service" disable >/dev/null 2>&1 || true
    done
fi
echo "prometheus-install: installed $packages; their system services are off (update-rc.d NAME enable)"
