#!/usr/bin/env bash
# Installs the peers named (default: mosec and pytriton, whose package brings a Triton server), each
# in an environment of its own, and builds the load generator.
#
# Every package is pinned by version and hash. An environment whose requirements have not changed is
# left alone, so running this again does nothing. Everything lands in PEERS_HOME (default:
# .cache/peers in this repository).
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
home=${PEERS_HOME:-$(cd "$here/../.." && pwd)/.cache/peers}
mkdir -p "$home"/{bin,venvs}

install_peer() {
    local peer=$1 requirements=$here/requirements-$1.txt folder=$home/venvs/$1
    if [[ ! -f $requirements ]]; then
        echo "no such peer: $peer (there is no requirements-$peer.txt)" >&2
        exit 2
    fi
    local stamp
    stamp="$(sha256sum <"$requirements") $(python3 --version)"
    if [[ -f $folder/stamp && $(<"$folder/stamp") == "$stamp" ]]; then
        return
    fi
    rm -rf "$folder"
    python3 -m venv "$folder"
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes \
        --requirement "$requirements"
    if [[ $peer == pytriton ]]; then
        place_triton_backend
    fi
    # ORDER: the stamp comes last, so an interrupted installation is done again.
    echo "$stamp" >"$folder/stamp"
}

# Puts the Python backend of the package, with the stub for this Python, where the server looks.
place_triton_backend() {
    local server version
    server=$(echo "$home"/venvs/pytriton/lib/python*/site-packages/pytriton/tritonserver)
    version=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    rm -rf "$home/triton_backends"
    mkdir -p "$home/triton_backends"
    cp -r "$server/backends/python" "$home/triton_backends/"
    cp "$server/python_backend_stubs/$version/triton_python_backend_stub" \
        "$home/triton_backends/python/"
}

if (($# == 0)); then
    set -- mosec pytriton
fi
for peer in "$@"; do
    install_peer "$peer"
done
if [[ ! $home/bin/loadgen -nt $here/loadgen.c ]]; then
    cc -O2 -Wall -Wextra -o "$home/bin/loadgen" "$here/loadgen.c"
fi
