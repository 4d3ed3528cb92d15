#!/usr/bin/env bash
# docs/bench/stress.md and its plots, two of which the README shows: 1 to 500 requests at once, one by one
# against batched, on a simulated device and on two real models. About two minutes after the build.
set -euo pipefail
cd "$(dirname "$0")/.."
binary=${PACELINE_BIN:-target/release/paceline}
if [[ -z ${PACELINE_BIN:-} ]]; then
    cargo build --release --quiet -p paceline-cli
fi
scripts/fetch-minilm
for model in curve magika; do
    "$binary" bench http --stress --model "$model" --plot "docs/bench/stress-$model.svg"
done

# Sentence embeddings, which are fetched and so are not in the default repository.
work=$(mktemp -d)
server=
trap '[[ -z $server ]] || kill "$server"; rm -rf "$work"' EXIT
mkdir -p "$work/minilm/1"
ln -s "$PWD/.cache/minilm/model.onnx" "$work/minilm/1/model.onnx"
cat >"$work/minilm/model.toml" <<'MODEL'
[padding]
inputs = { input_ids = 1, token_type_ids = 1 }
mask = "attention_mask"

[batch]
preset = "throughput"
max_items = 32
MODEL
"$binary" serve --set server.listen=127.0.0.1:0 --set server.grpc_listen=127.0.0.1:0 \
    --set "server.model_repository=$work" 2>"$work/log" &
server=$!
address=
until [[ -n $address ]]; do
    kill -0 "$server" 2>/dev/null || { cat "$work/log" >&2; exit 1; }
    address=$(sed -n 's/.*"message":"serving","http":"\([^"]*\)".*/\1/p' "$work/log")
    sleep 0.1
done
"$binary" bench http --stress --url "http://$address" --model minilm --plot docs/bench/stress-minilm.svg \
    --body '{"input_ids":[101,7592,2088,102],"token_type_ids":[0,0,0,0]}'
