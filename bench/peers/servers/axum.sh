#!/usr/bin/env bash
# The limit: axum alone answers the same JSON, with no model and no batcher. Gets PORT, as every peer.
set -euo pipefail

root=$(cd "$(dirname "$0")/../../.." && pwd)
binary=$root/target/release/examples/bare
if [[ ! -x $binary ]]; then
    echo "$binary is missing; build it with: cargo build --release -p paceline-api --example bare" >&2
    exit 1
fi
exec "$binary"
