#!/bin/sh
# Install Chromium if it is missing; the tests of the pages drive it. It is used by nothing else.
set -eu
cd "$(dirname "$0")/.."

found() { command -v chromium >/dev/null; }

if found; then
    exit 0
fi
# Without any font the browser draws boxes; these two are for text and for code.
if ! sh scripts/apt-install.sh chromium fonts-inter fonts-dejavu-core; then
    echo "browser-install: the tests need chromium on PATH; install Chromium 120 or newer" >&2
    exit 1
fi
found || { echo "browser-install: chromium is still not on PATH" >&2; exit 1; }
echo "browser-install: chromium is installed"
