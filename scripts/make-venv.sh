#!/bin/sh
# Make .venv with exactly the packages of the hashed lock, and leveret itself in place.
#
#   PYTHON=python3.12 scripts/make-venv.sh    (default: python3, otherwise the newest suitable Python on PATH)
set -eu
cd "$(dirname "$0")/.."
. scripts/progress.sh

will_do() { command -v "$1" >/dev/null && "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

python=
for candidate in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
    if will_do "$candidate"; then
        python=$candidate
        break
    fi
done
if [ -z "$python" ]; then
    echo "make-venv: Python 3.11 or newer is needed, found $("${PYTHON:-python3}" --version 2>&1 || echo none);" \
        "install one (Debian, Ubuntu: apt-get install python3 python3-venv) or name it: PYTHON=/path/to/python3 make venv" >&2
    exit 1
fi

if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    echo "make-venv: $python has no venv module; installing python$version-venv"
    sh scripts/apt-install.sh "python$version-venv"
fi

rm -f .venv/.ready
while_waiting "make-venv: making .venv" "$python" -m venv .venv
while_waiting "make-venv: installing the packages of requirements-dev.lock; this may take minutes" \
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
while_waiting "make-venv: installing leveret" \
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
touch .venv/.ready
echo "make-venv: .venv is ready ($(.venv/bin/python --version))"
