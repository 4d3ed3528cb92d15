#!/usr/bin/env bash
# docs/bench/tts.md: listeners of one vocoder, policies side by side in virtual time, and its plot.
# A few seconds after the build. The figures of real weights there have their own commands.
set -euo pipefail
cd "$(dirname "$0")/.."
binary=${PACELINE_BIN:-target/release/paceline}
if [[ -z ${PACELINE_BIN:-} ]]; then
    cargo build --release --quiet -p paceline-cli
fi
"$binary" bench tts --plot docs/bench/tts.svg
exec "$binary" bench tts --voices 1
