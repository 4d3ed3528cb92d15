#!/usr/bin/env bash
# Paceline with a Python class in one worker process. Gets PORT, MODEL (echo, sim or bytes), MAXB and
# WAIT_MS, as every peer; WORKERS and PACELINE_BIN where others are wanted.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
binary=${PACELINE_BIN:-$root/target/release/paceline}
if [[ ! -x $binary ]]; then
    echo "$binary is missing; build it with: cargo build --release" >&2
    exit 1
fi
python=$root/.cache/python/bin/python
if [[ ! -x $python ]]; then
    echo "$python is missing; run scripts/install-python" >&2
    exit 1
fi
instant=false
case $MODEL in
echo) class=Echo instant=${INSTANT:-true} ;;
sim) class=Sim ;;
bytes) class=Same ;;
*)
    echo "MODEL is $MODEL, where echo, sim or bytes is expected" >&2
    exit 2
    ;;
esac

mkdir -p "$PWD/models/$MODEL/1"
cp "$here/paceline_model.py" "$PWD/models/$MODEL/1/model.py"
cat >"$PWD/models/$MODEL/model.toml" <<CONFIG
backend = "python"
instances = ${WORKERS:-1}
warm_up_length = 64

[python]
class = "model:$class"
interpreter = "$python"
instant = $instant
env = { PYTHONPATH = "$here" }

[batch]
max_items = $MAXB
max_wait = "${WAIT_MS}ms"
queue_items = 4096
queue_bytes = 1073741824
CONFIG
cat >"$PWD/paceline.toml" <<CONFIG
[server]
listen = "127.0.0.1:$PORT"
grpc_listen = "127.0.0.1:0"
model_repository = "$PWD/models"
CONFIG
exec "$binary" serve --config "$PWD/paceline.toml"
