#!/usr/bin/env python3
"""Prints the results as tables: the best repetition of each point, and how far the worst was off.

The best is the one with the most requests a second; its percentiles stand beside it. Results with a
tag are left out.
"""

import collections
import json
import os
import pathlib

HOME = os.environ.get("PEERS_HOME") or pathlib.Path(__file__).resolve().parents[2] / ".cache/peers"
MODES = ["echo", "grpc", "sim50", "sim5", "bytes1m", "bytes6m"]


def table(title, columns):
    print(f"\n### {title}\n\n| {' | '.join(columns)} |\n|{'---|' * len(columns)}")


def row(*cells):
    print(f"| {' | '.join(map(str, cells))} |")


points = collections.defaultdict(list)
peers = collections.defaultdict(list)
for text in (pathlib.Path(HOME) / "results" / "results.jsonl").read_text().splitlines():
    line = json.loads(text)
    if line["tag"]:
        continue
    # Completed by the time of the last answer, so that slow models are not cut at the window's end.
    line["rate"] = line["ok"] / line["secs"] if line["secs"] else 0.0
    points[line["mode"], line["peer"], line["conc"]].append(line)
    peers[line["peer"]].append(line)

for mode in MODES:
    keys = sorted(key for key in points if key[0] == mode)
    if not keys:
        continue
    table(
        mode,
        ["peer", "c", "req/s", "p50 ms", "p99 ms", "errors", "server CPU µs/req", "foreign cores"]
        + ["worst rep req/s (foreign)", "n reps"],
    )
    for key in keys:
        lines = points[key]
        best = max(lines, key=lambda line: line["rate"])
        worst = min(lines, key=lambda line: line["rate"])
        row(
            key[1],
            key[2],
            f"{best['rate']:.1f}",
            f"{best['p50_ms']:.2f}",
            f"{best['p99_ms']:.2f}",
            best["http_err"] + best["conn_err"] + best["timeouts"],
            f"{best['srv_cpu_us_per_req']:.0f}",
            f"{best['foreign_cpu']:.2f}",
            f"{worst['rate']:.1f} ({worst['foreign_cpu']:.2f})",
            len(lines),
        )

table(
    "footprint",
    ["peer", "ready s (min..max)", "RSS idle MB", "PSS idle MB", "RSS after load MB (max)"]
    + ["processes", "idle CPU cores"],
)
for peer, lines in sorted(peers.items()):
    ready = [line["ready_s"] for line in lines]
    row(
        peer,
        f"{min(ready):.2f}..{max(ready):.2f}",
        min(line["idle_rss_mb"] for line in lines),
        min(line["idle_pss_mb"] for line in lines),
        max(line["rss_mb"] for line in lines),
        max(line["nproc"] for line in lines),
        f"{max(line['idle_cpu'] for line in lines):.3f}",
    )
