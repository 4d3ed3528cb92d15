#!/usr/bin/env python3
"""Runs Triton's perf_analyzer against the server and checks that it comes to a stable result.

This asks whether the tool works with the server, not how fast the server is: windows are short and
the bounds on stability wide, so that a case ends within seconds on a busy machine. The addresses
come from PACELINE_HTTP and PACELINE_GRPC; the tool from scripts/install-perf-analyzer.

usage: perf_analyzer.py [CASE...], all cases where none is named
"""

import csv
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / ".cache/clients/perf_analyzer/perf_analyzer"
LIMIT_S = 40
CONCURRENCY = 4
# A window ends after so many requests, so that a busy machine makes it longer and not emptier.
STABLE = [
    "--measurement-mode=count_windows",
    "--measurement-request-count=200",
    "--stability-percentage=90",
    "--max-trials=20",
]
FP32 = ["-m", "identity_fp32", "--shape=INPUT:16"]
BYTES = ["-m", "identity_bytes", "--shape=INPUT:4", "--string-length=24"]
# Name: protocol, arguments, rows in a request.
CASES = {
    "http": ("http", FP32, 1),
    "http_async": ("http", [*FP32, "--async"], 1),
    "http_batch": ("http", [*FP32, "-b", "4"], 4),
    "http_bytes": ("http", BYTES, 1),
    "grpc": ("grpc", FP32, 1),
    "grpc_async": ("grpc", [*FP32, "--async"], 1),
    "grpc_stream": ("grpc", [*FP32, "--async", "--streaming"], 1),
    "grpc_bytes": ("grpc", BYTES, 1),
}
# Columns that exist only when the server's statistics could be read.
SERVER_COLUMNS = ["Server Queue", "Server Compute Input", "Server Compute Infer"]


class Unfit(Exception):
    """The tool did not get along with the server."""


def measure(protocol, arguments, report):
    """Runs the tool; gives the one row of its report."""
    address = os.environ[f"PACELINE_{protocol.upper()}"]
    command = [PROGRAM, "-u", address, "-i", protocol, "-f", report, *arguments, *STABLE]
    command.append(f"--concurrency-range={CONCURRENCY}")
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT_S
        )
    except subprocess.TimeoutExpired as error:
        raise Unfit(f"not done within {LIMIT_S} s: {error.stdout or ''}") from error
    if done.returncode != 0:
        raise Unfit(f"exit status {done.returncode}:\n{done.stdout}")
    if "stable measurement" in done.stdout:
        raise Unfit(f"no stable measurement:\n{done.stdout}")
    rows = list(csv.DictReader(open(report, newline="")))
    if len(rows) != 1:
        raise Unfit(f"the report has {len(rows)} rows:\n{done.stdout}")
    return rows[0]


def judge(row, rows_per_request):
    """Checks that the numbers belong together."""
    missing = [column for column in SERVER_COLUMNS if not row.get(column)]
    if missing:
        raise Unfit(f"no statistics of the server in the report: {missing} are missing")
    rate = float(row["Inferences/Second"])
    median_s, worst_s = float(row["p50 latency"]) / 1e6, float(row["p99 latency"]) / 1e6
    if not (rate > 0 and 0 < median_s <= worst_s):
        raise Unfit(f"impossible numbers: {row}")
    # Little's law for a closed loop, with room for a median that is not the mean.
    in_flight = rate / rows_per_request * median_s
    if not CONCURRENCY / 4 < in_flight < CONCURRENCY * 2:
        raise Unfit(f"{in_flight:.2f} requests in flight on average, where {CONCURRENCY} were sent")
    return f"{rate:.0f} inferences/s, p50 {median_s * 1e3:.2f} ms, p99 {worst_s * 1e3:.2f} ms"


def main(names):
    unknown = set(names) - set(CASES)
    if unknown:
        sys.exit(f"no such case: {sorted(unknown)}; there are {list(CASES)}")
    failed = []
    for name in names or CASES:
        protocol, arguments, rows_per_request = CASES[name]
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="paceline-perf-") as folder:
            try:
                verdict = judge(measure(protocol, arguments, f"{folder}/r.csv"), rows_per_request)
            except Unfit as error:
                failed.append(name)
                verdict = f"FAILED: {error}"
        print(f"{name} ({time.monotonic() - began:.1f} s): {verdict}", flush=True)
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
