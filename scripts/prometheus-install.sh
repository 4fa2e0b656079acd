#!/bin/sh
# Install Prometheus and Alertmanager with their tools if they are missing, without starting system services.
set -eu
cd "$(dirname "$0")/.."

has() { command -v "$1" >/dev/null; }

is_installed() { dpkg-query -W -f '${Status}\n' "$1" 2>/dev/null | grep -q ' installed$'; }

packages=""
if ! has prometheus || ! has promtool; then
    packages="prometheus"
fi
if ! has amtool || ! { has prometheus-alertmanager || has alertmanager; }; then
    packages="$packages prometheus-alertmanager"
fi
if [ -z "$packages" ]; then
    exit 0
fi
new="" # a package that was installed before keeps its service, which somebody may rely on
for package in $packages; do
    is_installed "$package" || new="$new $package"
done
# shellcheck disable=SC2086 # each word is a package
if ! sh scripts/apt-install.sh $packages; then
    echo "prometheus-install: the tests need prometheus, promtool, alertmanager and amtool on PATH;" \
        "install Prometheus 2.42 and Alertmanager 0.25, or newer" >&2
    exit 1
fi
has promtool && has amtool || { echo "prometheus-install: promtool or amtool is still not on PATH" >&2; exit 1; }

echo "prometheus-install: installed $packages"
# shellcheck disable=SC2086 # each word is a package
sh scripts/service-off.sh $new
