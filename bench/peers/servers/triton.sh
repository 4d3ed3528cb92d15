#!/usr/bin/env bash
# Triton's own server, as it comes in the package nvidia-pytriton, with a model on its Python backend.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
packages=$(echo "$PEERS_HOME"/venvs/pytriton/lib/python*/site-packages)
repository=$PWD/models
rm -rf "$repository"
mkdir -p "$repository/m/1"
cp "$here/triton_model.py" "$repository/m/1/model.py"
cat >"$repository/m/config.pbtxt" <<CONFIG
name: "m"
backend: "python"
max_batch_size: $MAXB
input [ { name: "input" data_type: TYPE_UINT8 dims: [ -1 ] } ]
output [ { name: "length" data_type: TYPE_INT32 dims: [ 1 ] } ]
instance_group [ { count: 1 kind: KIND_CPU } ]
dynamic_batching { max_queue_delay_microseconds: $((WAIT_MS * 1000)) }
CONFIG

unset PYTHONHOME
export PEERS_SERVERS=$here
# The stub takes its packages from the python3 found first, and libpython from the library path.
export PATH=$PEERS_HOME/venvs/pytriton/bin:$PATH
export LD_LIBRARY_PATH=$PEERS_PYLIB:$packages/nvidia_pytriton.libs
exec "$packages/pytriton/tritonserver/bin/tritonserver" \
    --model-repository="$repository" --backend-directory="$PEERS_HOME/triton_backends" \
    --model-control-mode=none --log-verbose=0 \
    --http-address=127.0.0.1 --http-port="$PORT" --http-thread-count="${HTTP_THREADS:-8}" \
    --grpc-address=127.0.0.1 --grpc-port="$((PORT + 10))" \
    --metrics-address=127.0.0.1 --metrics-port="$((PORT + 20))" --allow-gpu-metrics=false
