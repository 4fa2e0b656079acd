#!/bin/sh
# Install packages with apt, and let none of them start or restart a service.
#
#   scripts/apt-install.sh PACKAGE...
#
# Debian's packages run policy-rc.d before they touch a service; its exit code 101 forbids that.
# Afterwards the former policy-rc.d is back in its place, also if the installation fails.
# Source: invoke-rc.d(8), "POLICY-RC.D".
set -eu
. "$(dirname "$0")/progress.sh"

policy=/usr/sbin/policy-rc.d
saved=$policy.before-leveret
mark="written by leveret's apt-install"

if ! command -v apt-get >/dev/null; then
    echo "apt-install: this system has no apt-get; install these packages with its own package manager: $*" >&2
    exit 1
fi
if [ "$(id -u)" = 0 ]; then
    as_root() { "$@"; }
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    as_root() { sudo -n "$@"; }
else
    echo "apt-install: no rights to install $*; run as root: apt-get install $*" >&2
    exit 1
fi

restore() {
    if grep -qs "$mark" "$policy"; then as_root rm -f "$policy"; fi
    if [ -e "$saved" ] || [ -L "$saved" ]; then as_root mv -f "$saved" "$policy"; fi
}

restore # an earlier run may have been killed before it restored the file
trap restore EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
if [ -e "$policy" ] || [ -L "$policy" ]; then as_root mv "$policy" "$saved"; fi
printf '#!/bin/sh\n# %s\nexit 101\n' "$mark" | as_root tee "$policy" >/dev/null
as_root chmod 755 "$policy"

while_waiting "apt-install: reading the package lists" as_root apt-get update -qq || echo "apt-install: some package lists could not be refreshed; continuing with the old ones" >&2
while_waiting "apt-install: installing $*" \
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends --no-upgrade "$@"
