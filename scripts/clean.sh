#!/bin/sh
# Remove the built files. The private broker's data in .leveret stays.
set -eu
cd "$(dirname "$0")/.."
for proc in "$PWD"/build/brokers/*/proc; do
    if grep -qs " $proc " /proc/mounts; then umount "$proc"; fi
done
if grep -qs " $PWD/build/" /proc/mounts; then
    echo "clean: something is still mounted under build/; unmount it first" >&2
    exit 1
fi
rm -rf build dist ./*.egg-info .coverage .coverage.* .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
find . -path ./.venv -prune -o -path ./.git -prune -o -name __pycache__ -type d -print0 | xargs -0 rm -rf
