#!/bin/sh
# Install nginx if it is missing, without starting its system service, now or at the next boot.
set -eu
cd "$(dirname "$0")/.."

if [ -x /usr/sbin/nginx ]; then exit 0; fi # a normal user's PATH lacks its folder
sh scripts/apt-install.sh nginx-light
if command -v update-rc.d >/dev/null; then
    if [ "$(id -u)" = 0 ]; then disable="update-rc.d"; else disable="sudo -n update-rc.d"; fi
    $disable nginx disable >/dev/null 2>&1 || true
    echo "nginx-install: the system service of nginx is off (update-rc.d nginx enable)"
fi
