#!/usr/bin/env bash
# Installs what is missing, builds, runs the whole comparison and prints the tables. One command.
#
# usage: ./run_all.sh [--short] ["PEER..."] ["MODE..."] [REPETITIONS]
#
# Everything takes about 25 minutes. --short takes under 5: echo at 1, 32 and 128 connections, and gRPC.
# Each peer has at most 7 minutes in each mode; one that fails does not stop the others.
set -euo pipefail

cd "$(dirname "$0")"
root=$(cd ../.. && pwd)
export PEERS_HOME=${PEERS_HOME:-$root/.cache/peers}
results=$PEERS_HOME/results/results.jsonl
default_modes="echo grpc sim50 sim5"
if [[ ${1:-} == --short ]]; then
    shift
    default_modes="echo grpc"
    export CONC=${CONC:-1,32,128} SECS=${SECS:-3} PATIENCE=${PATIENCE:-2}
fi
read -ra peers <<<"${1:-axum paceline paceline_oip mosec triton}"
read -ra modes <<<"${2:-$default_modes}"
repetitions=${3:-2}

for peer in "${peers[@]}"; do
    case $peer in
    axum) cargo build --quiet --release --manifest-path "$root/Cargo.toml" -p paceline-api --example bare ;;
    paceline*)
        if [[ -z ${PACELINE_BIN:-} ]]; then
            cargo build --quiet --release --manifest-path "$root/Cargo.toml" -p paceline-cli
        fi
        if [[ $peer == paceline_py* ]]; then
            "$root/scripts/install-python"
        fi
        ;;
    triton | triton_bin) ./setup.sh pytriton ;;
    *) ./setup.sh "$peer" ;;
    esac
done

if [[ -s $results ]]; then
    mv "$results" "${results%.jsonl}_$(date +%Y%m%d_%H%M%S).jsonl"
fi
failed=()
for mode in "${modes[@]}"; do
    for peer in "${peers[@]}"; do
        case $peer/$mode in
        # BentoML has no longest wait to set, so its two simulated modes would be one.
        bentoml/sim5) continue ;;
        # axum alone has no model.
        axum/grpc | axum/sim*) continue ;;
        # These speak gRPC; the plain door of Paceline is the same server.
        triton/grpc | paceline_oip/grpc) ;;
        */grpc) continue ;;
        esac
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
