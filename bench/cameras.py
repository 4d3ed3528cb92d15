"""Writes what bench/cameras.sh measured into docs/bench/cameras.md, between its two marks; with --print
only shows it."""

import json
import os
import sys
import time
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs/bench/cameras.md"
BEGIN, END = "<!-- measured -->\n", "<!-- end -->\n"
HEAD = """| {what} | frames/s | lost, doubled, out of order | p50 | p99 | worst | Redis CPU a frame | server CPU a frame | memory | switches a frame |
|---|---|---|---|---|---|---|---|---|---|
"""


def row(name: str, run: dict) -> str:
    amiss = run["lost"] + run["duplicated"] + run["reordered"] + run["wrong"]
    return (
        f"| {name} | {run['fps']:,.0f} | {amiss} | {run['p50_ms']:.0f} ms | {run['p99_ms']:.0f} ms "
        f"| {run['max_ms']:.0f} ms | {run['redis_cpu_us_per_frame']:.1f} µs "
        f"| {run['server_cpu_us_per_frame']:.1f} µs | {run['rss_begin_mb']:.0f} to {run['rss_mb']:.0f} MB "
        f"| {run['context_switches_per_frame']:.2f} |\n"
    )


def other(name: str, run: dict) -> str:
    return (
        f"| {name}, {run['tasks']} tasks | {run['fps']:,.0f} | | | | "
        f"| {run['redis_cpu_us_per_frame']:.1f} µs | | | {run['context_switches_per_frame']:.2f} |\n"
    )


def table(what: str, *rows: str) -> str:
    return HEAD.format(what=what) + "".join(rows)


def page(runs: dict) -> str:
    date = time.strftime("%Y-%m-%d", time.gmtime())
    parts = [f"{date}, {os.cpu_count()} cores, release build.\n"]
    whole = runs["headline"]
    parts.append(
        "### 1000 cameras, 200 bytes, 10,000 frames a second\n\n"
        + table(
            "reading",
            row("Paceline, 64 shard streams", whole),
            row("Paceline, 256 shard streams", runs["more-shards"]),
            row("Paceline, a stream for each camera", runs["per-camera"]),
            other("as an older system reads", whole["seed_style"]),
            other("one task for each camera", whole["one_task_per_camera"]),
        )
    )
    found = runs["highest"]
    rate = found["highest_rate"]
    held = "No rate was held" if rate is None else f"Held: {rate:,.0f} frames a second"
    offered = (row(f"{run['rate']:,.0f}", run) for run in found["runs"])
    parts.append(f"### The highest rate\n\n{held}.\n\n" + table("offered", *offered))
    counts = (row(f"{run['cameras']:,}", run) for run in runs["cameras"])
    parts.append("### The number of cameras\n\n" + table("cameras", *counts))
    kinds = [row(run["payload"], run) for run in runs["payloads"]]
    kinds.append(row("jpeg, 224 x 224, 500 frames/s", runs["pictures"]))
    parts.append("### 20 KB in Redis and in shared memory, and pictures\n\n" + table("payload", *kinds))
    if "long" in runs:
        parts.append("### Ten minutes\n\n" + table("", row("10,000 frames/s", runs["long"])))
    return "\n".join(parts)


def main() -> None:
    folder = Path(sys.argv[1])
    runs = {file.stem: json.loads(file.read_text()) for file in folder.glob("*.json")}
    text = page(runs)
    if "--print" in sys.argv:
        print(text)
        return
    old = PAGE.read_text()
    before, rest = old.split(BEGIN)
    _, after = rest.split(END)
    PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")


main()
