#!/bin/sh
# Fetch axe-core, the accessibility checker of the tests, into build/axe; one version, checked by its hash.
set -eu
cd "$(dirname "$0")/.."

version=4.14.1
sha256=29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c
target=build/axe/axe.min.js

right() { [ -e "$target" ] && printf '%s  %s\n' "$sha256" "$target" | sha256sum --check --status; }

if right; then
    exit 0
fi
command -v npm >/dev/null || { echo "axe-install: npm is missing; install it (Debian: apt-get install npm)" >&2; exit 1; }
mkdir -p build/axe
archive=$(npm pack "axe-core@$version" --pack-destination build/axe --silent)
tar -xzf "build/axe/$archive" -C build/axe --strip-components 1 package/axe.min.js
rm -f "build/axe/$archive"
right || { rm -f "$target"; echo "axe-install: axe-core $version does not have the expected hash" >&2; exit 1; }
echo "axe-install: axe-core $version is in build/axe"
