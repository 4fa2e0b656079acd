#!/bin/sh
# Check our signatures with verifiers of other code bases: the npm standardwebhooks package and openssl.
#
#   tests/interop/run.sh [PYTHON]
#
# The npm package goes to build/interop, pinned by package-lock.json. Nothing is skipped: what is missing fails.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
root=$(dirname -- "$(dirname -- "$here")")
python=${1:-$root/.venv/bin/python}

for tool in node npm openssl; do
    command -v "$tool" >/dev/null || missing="${missing:-} $tool"
done
if [ -n "${missing:-}" ]; then
    echo "test-interop: missing:$missing; install them (Debian: apt-get install nodejs npm openssl)" >&2
    exit 1
fi

mkdir -p "$root/build/interop"
cp "$here/package.json" "$here/package-lock.json" "$root/build/interop/"
npm ci --prefix "$root/build/interop" --no-audit --no-fund --ignore-scripts --loglevel=error
cd "$root"
LEVERET_INTEROP="$root/build/interop" exec "$python" -m pytest --no-skips tests/interop/check_interop.py
