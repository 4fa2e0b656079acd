#!/bin/sh
# Keep the system services of newly installed packages off at the next boot too: nobody relies on them yet.
#
#   scripts/service-off.sh NAME...
set -eu

PATH="$PATH:/usr/sbin:/sbin" # a normal user's PATH lacks these folders
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi; }

command -v update-rc.d >/dev/null || exit 0
for name in "$@"; do
    if as_root update-rc.d "$name" disable >/dev/null 2>&1; then
        echo "service-off: the system service of $name is off (update-rc.d $name enable)"
    else
        echo "service-off: the system service of $name starts at the next boot (update-rc.d $name disable)" >&2
    fi
done
