#!/usr/bin/env bash
# Runs the whole comparison and prints the tables. Run ./setup.sh first.
#
# usage: ./run_all.sh ["PEER..."] ["MODE..."] [REPETITIONS]
# Each peer has at most 7 minutes in each mode; one that fails does not stop the others.
set -euo pipefail

cd "$(dirname "$0")"
export PEERS_HOME=${PEERS_HOME:-$(cd ../.. && pwd)/.cache/peers}
results=$PEERS_HOME/results/results.jsonl
read -ra peers <<<"${1:-mosec triton paceline paceline_oip}"
read -ra modes <<<"${2:-echo sim50 sim5}"
repetitions=${3:-2}

if [[ -s $results ]]; then
    mv "$results" "${results%.jsonl}_$(date +%Y%m%d_%H%M%S).jsonl"
fi
failed=()
for mode in "${modes[@]}"; do
    for peer in "${peers[@]}"; do
        # BentoML has no longest wait to set, so its two simulated modes would be one.
        if [[ $peer == bentoml && $mode == sim5 ]]; then
            continue
        fi
        timeout 420 python3 run.py "$peer" "$mode" "$repetitions" || failed+=("$peer/$mode")
    done
done
if [[ -s $results ]]; then
    python3 summary.py
fi
if ((${#failed[@]})); then
    echo "failed: ${failed[*]}" >&2
    exit 1
fi
