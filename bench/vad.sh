#!/usr/bin/env bash
# docs/bench/vad.md: voice detection, our kernel beside two engines and as a service.
# About forty seconds after the build.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/install-onnxruntime
cargo bench --quiet -p paceline-backend-onnx --bench vad
exec cargo bench --quiet -p paceline-pipeline --bench voice
