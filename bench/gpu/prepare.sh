#!/usr/bin/env bash
# Gathers what run.py needs on a machine that has Python, torch and NumPy and no network: the server,
# the load generator, and mosec's wheels for that machine's Python.
#
# usage: bench/gpu/prepare.sh FOLDER [PYTHON_VERSION] (default: 3.12)
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
folder=${1:?usage: prepare.sh FOLDER [PYTHON_VERSION]}
version=${2:-3.12}
binary=${PACELINE_BIN:-$root/target/release/paceline}
if [[ ! -x $binary ]]; then
    echo "$binary is missing; build it with: cargo build --release, or name it with PACELINE_BIN" >&2
    exit 1
fi
mkdir -p "$folder/wheels"
# Without its symbols, and packed, it is a fraction of the size.
strip -o "$folder/paceline" "$binary"
python3 - "$folder/paceline" <<'PACK'
import lzma, pathlib, sys
path = pathlib.Path(sys.argv[1])
path.with_suffix(".xz").write_bytes(lzma.compress(path.read_bytes(), preset=6))
path.unlink()
PACK
cc -O2 -o "$folder/loadgen" "$root/bench/peers/loadgen.c"
python3 -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes \
    --only-binary=:all: --python-version "$version" --dest "$folder/wheels" \
    --requirement "$root/bench/peers/requirements-mosec.txt"
du -sh "$folder"
