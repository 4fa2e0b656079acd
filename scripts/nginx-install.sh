#!/bin/sh
# Install nginx if it is missing, without starting its system service, now or at the next boot.
set -eu
cd "$(dirname "$0")/.."

if [ -x /usr/sbin/nginx ]; then exit 0; fi # a normal user's PATH lacks its folder
sh scripts/apt-install.sh nginx-light
sh scripts/service-off.sh nginx
