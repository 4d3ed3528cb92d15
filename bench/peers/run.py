#!/usr/bin/env python3
"""Measures one peer in one mode: starts its server, loads it, stops it.

usage: run.py PEER MODE [REPETITIONS]

The server listens on loopback. It is warmed up once it gives a first good answer; each repetition
then runs the closed loop at each number of connections and adds one JSON line to
$PEERS_HOME/results/results.jsonl. Only processes that carry this run's mark are stopped.

The generator is loadgen over HTTP, and `paceline bench grpc` in mode `grpc`.
"""

import contextlib
import json
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
HOME = pathlib.Path(os.environ.get("PEERS_HOME") or HERE.parents[1] / ".cache" / "peers")
VENVS = HOME / "venvs"
SERVERS = HERE / "servers"
# The folder of the running Python's library, which Triton's Python backend needs.
PYLIB = sysconfig.get_config_var("LIBDIR") or ""
TICKS = os.sysconf("SC_CLK_TCK")
READY_S = 90
STOP_S = 10

# `echo_wait` is the longest wait, in ms, that the peer is given for echo: none, or its least.
PEERS = {
    "mosec": {
        "cmd": f"{VENVS}/mosec/bin/python {SERVERS}/mosec_srv.py --address 127.0.0.1 "
        "--port {port} --timeout 30000 --capacity 4096 --log-level warning",
        "port": 9101,
        "path": "/inference",
        "body": "body_json",
        "echo_wait": 1,
        "bytes": {"body": "raw"},
    },
    "litserve": {
        "cmd": f"{VENVS}/litserve/bin/python {SERVERS}/litserve_srv.py",
        "port": 9102,
        "path": "/predict",
        "body": "body_json",
        "echo_wait": 1,
        "env": {"NAPI": "2", "FASTQ": "1"},
    },
    "ray": {
        "cmd": f"{VENVS}/ray/bin/python {SERVERS}/ray_srv.py",
        "port": 9103,
        "path": "/",
        "body": "body_json",
        "env": {
            "RAY_SERVE_THROUGHPUT_OPTIMIZED": "1",
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_worker_niceness": "0",
        },
    },
    "bentoml": {
        "cmd": f"{VENVS}/bentoml/bin/bentoml serve bento_srv:M --working-dir {SERVERS} "
        "--host 127.0.0.1 --port {port}",
        "port": 9104,
        "path": "/infer",
        "body": "body_bento",
        "env": {"BENTOML_DO_NOT_TRACK": "True"},
    },
    "triton": {
        "cmd": "{servers}/triton.sh",
        "port": 9105,
        "path": "/v2/models/m/infer",
        "body": "body_triton",
        "grpc_model": "m",
    },
    "triton_bin": {
        "cmd": "{servers}/triton.sh",
        "port": 9107,
        "path": "/v2/models/m/infer",
        "body": "body_triton_bin",
        "hdr": ["Inference-Header-Content-Length: 164"],
    },
    "pytriton": {
        "cmd": f"{VENVS}/pytriton/bin/python {SERVERS}/pytriton_srv.py",
        "port": 9106,
        "path": "/v2/models/m/infer",
        "body": "body_triton",
        "env": {"LD_LIBRARY_PATH": PYLIB},
    },
}
for extra in (HERE / "peers_extra.json", os.environ.get("PEERS_EXTRA", "")):
    if os.path.isfile(extra):
        PEERS.update(json.loads(pathlib.Path(extra).read_text()))

PACELINE = os.environ.get("PACELINE_BIN") or HERE.parents[1] / "target" / "release" / "paceline"
# Servers that speak gRPC do so this far above their port, on so many connections of the generator.
GRPC_OFFSET = 10
GRPC_CONNECTIONS = 8

MODES = {
    "grpc": {"MODEL": "echo", "MAXB": "64", "conc": [1, 32, 128], "secs": 5},
    "echo": {"MODEL": "echo", "MAXB": "64", "conc": [1, 8, 32, 64, 128, 256], "secs": 5},
    "sim50": {
        "MODEL": "sim",
        "MAXB": "32",
        "WAIT_MS": "50",
        "conc": [1, 8, 32, 64, 128],
        "secs": 10,
    },
    "sim5": {"MODEL": "sim", "MAXB": "32", "WAIT_MS": "5", "conc": [1, 8, 32, 64, 128], "secs": 10},
    # Tensors that come back as they went: a megabyte, and a frame of 1080p. One a call: more only
    # push each other out of the processor's caches.
    "bytes1m": {"MODEL": "bytes", "MAXB": "1", "conc": [1, 8, 32], "secs": 5, "bytes": 1 << 20},
    "bytes6m": {"MODEL": "bytes", "MAXB": "1", "conc": [1, 8, 32], "secs": 5, "bytes": 6220800},
}


class Mark:
    """How the processes of one run are known: by a variable they inherit, or by their folder."""

    def __init__(self, peer, mode):
        self.value = f"{peer}_{mode}_{os.getpid()}"
        self.folder = HOME / "cwd" / self.value
        self.folder.mkdir(parents=True)

    def pids(self):
        needle = f"PEERS_RUN={self.value}".encode()
        found = []
        for entry in os.listdir("/proc"):
            # A process may end, or belong to somebody else, between the listing and the reading.
            with contextlib.suppress(OSError):
                if entry.isdigit() and (
                    needle in pathlib.Path("/proc", entry, "environ").read_bytes()
                    or os.readlink(f"/proc/{entry}/cwd") == str(self.folder)
                ):
                    found.append(int(entry))
        return found


def cpu_seconds(pids):
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            total += int(fields[11]) + int(fields[12])
    return total / TICKS


def memory_mb(pids):
    """Resident and proportional memory."""
    kb = {"Rss": 0, "Pss": 0}
    for pid in pids:
        with contextlib.suppress(OSError):
            for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                name = line.split(":")[0]
                if name in kb:
                    kb[name] += int(line.split()[1])
    return round(kb["Rss"] / 1024), round(kb["Pss"] / 1024)


def machine_seconds():
    """Busy and stolen CPU time of the whole machine."""
    fields = [int(field) for field in open("/proc/stat").readline().split()[1:]]
    return (sum(fields[:3]) + fields[5] + fields[6] + fields[7]) / TICKS, fields[7] / TICKS


def wait_for_quiet(mark):
    """Waits, within bounds, until the machine's other users take little; then goes on anyway."""
    limit = float(os.environ.get("QUIET", "0.15"))
    deadline = time.monotonic() + float(os.environ.get("PATIENCE", "5"))
    while time.monotonic() < deadline:
        pids = mark.pids()
        began, own, busy = time.monotonic(), cpu_seconds(pids), machine_seconds()[0]
        time.sleep(0.5)
        foreign = machine_seconds()[0] - busy - (cpu_seconds(pids) - own)
        if foreign / (time.monotonic() - began) < limit:
            return


def wait_until_ready(server, url, body, headers, log_path):
    """Seconds until the first good answer, and the answer's beginning."""
    began = time.monotonic()
    error = "it was not asked"
    while time.monotonic() - began < READY_S and server.poll() is None:
        try:
            request = urllib.request.Request(url, body, headers)
            with urllib.request.urlopen(request, timeout=5) as answer:
                return time.monotonic() - began, answer.read()[:120]
        except OSError as failure:
            error = failure
        time.sleep(0.02)
    tail = log_path.read_text(errors="replace")[-2000:]
    sys.exit(f"not ready: exit status {server.poll()}, last error: {error}; its log ends:\n{tail}")


def stop(server, mark):
    with contextlib.suppress(OSError):
        server.send_signal(signal.SIGTERM)
    deadline = time.monotonic() + STOP_S
    while time.monotonic() < deadline and mark.pids():
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(0.2)
        time.sleep(0.1)
    left = mark.pids()
    for pid in left:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    if left:
        print("  killed leftovers:", len(left))
    shutil.rmtree(mark.folder, ignore_errors=True)


def measure(mark, generator, connections, seconds):
    """One closed loop: what the generator saw, and what the server and the machine did meanwhile."""
    wait_for_quiet(mark)
    pids = mark.pids()
    own, (busy, stolen), began = cpu_seconds(pids), machine_seconds(), time.monotonic()
    done = subprocess.run(
        generator(connections, seconds), capture_output=True, text=True, timeout=seconds + 40
    )
    wall = time.monotonic() - began
    own = cpu_seconds(pids) - own
    busy, stolen = (after - before for after, before in zip(machine_seconds(), (busy, stolen)))
    if done.returncode != 0:
        print("  the load generator failed:", done.stderr)
        return None
    line = json.loads(done.stdout)
    if "rows" in line:
        line = as_loadgen(line["rows"][0], connections, seconds)
    rss, pss = memory_mb(pids)
    return line | {
        "wall": round(wall, 2),
        "srv_cpu_s": round(own, 2),
        "srv_cpu_us_per_req": round(own / max(1, line["ok"]) * 1e6, 1),
        "foreign_cpu": round(max(0, busy - own - line["gen_cpu_s"]) / wall, 3),
        "steal": round(stolen / wall, 3),
        "rss_mb": rss,
        "pss_mb": pss,
        "nproc": len(pids),
    }


def large_body(kind, size):
    """A body of so many bytes as the peer speaks it, and the headers that go with it."""
    data = bytes(range(256)) * (size // 256 + 1)
    data, head = data[:size], b""
    if kind == "oip":
        tensor = {"name": "input", "datatype": "UINT8", "shape": [1, size]}
        tensor["parameters"] = {"binary_data_size": size}
        outputs = [{"name": "output", "parameters": {"binary_data": True}}]
        head = json.dumps({"inputs": [tensor], "outputs": outputs}).encode()
    path = HOME / "bodies" / f"{kind}_{size}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(head + data)
    return path, [f"Inference-Header-Content-Length: {len(head)}"] if head else []


def as_loadgen(row, connections, seconds):
    """A row of `paceline bench grpc` in the words of loadgen."""
    return {
        "conc": connections,
        "secs": seconds,
        "ok": round(row["answers_per_s"] * seconds),
        "rps": round(row["answers_per_s"], 2),
        **{key: row[key] for key in ("mean_ms", "p50_ms", "p99_ms", "max_ms")},
        "http_err": sum(row["errors"].values()),
        "first_bad": 0,
        "conn_err": 0,
        "timeouts": 0,
        "gen_cpu_s": (row["generator_busy"] or 0) * seconds,
    }


def main(peer, mode, repetitions):
    about, settings = PEERS[peer], MODES[mode]
    body, headers = HERE / about["body"], about.get("hdr", [])
    if "bytes" in settings:
        if "bytes" not in about:
            sys.exit(f"{peer} has no model for large tensors here")
        about = about | about["bytes"]
        body, headers = large_body(about["body"], settings["bytes"])
    counts = [int(word) for word in os.environ["CONC"].split(",")] if "CONC" in os.environ else None
    seconds = float(os.environ.get("SECS", settings["secs"]))
    tag = os.environ.get("TAG", "")
    for folder in ("results", "logs"):
        (HOME / folder).mkdir(parents=True, exist_ok=True)
    mark = Mark(peer, mode)
    batch_log = HOME / "results" / f"batches_{peer}_{mode}{tag}.txt"
    batch_log.unlink(missing_ok=True)
    wait_ms = settings.get("WAIT_MS", about.get("echo_wait", 0))
    environment = {
        **os.environ,
        "PEERS_HOME": str(HOME),
        "PEERS_PYLIB": PYLIB,
        "PEERS_RUN": mark.value,
        "PORT": str(about["port"]),
        "MODEL": settings["MODEL"],
        "MAXB": os.environ.get("MAXB", settings["MAXB"]),
        "WAIT_MS": os.environ.get("WAIT_MS", str(wait_ms)),
        "BATCHLOG": str(batch_log) if settings["MODEL"] == "sim" else "",
        **about.get("env", {}),
    }
    path = about["path"].format(model=settings["MODEL"])

    def generator(connections, duration):
        if mode == "grpc":
            url = f"http://127.0.0.1:{about['port'] + GRPC_OFFSET}"
            load = f"--concurrency={connections} --duration={duration}s --warm-up=200ms --json"
            model = f"--url={url} --model={about['grpc_model']} --connections={GRPC_CONNECTIONS}"
            return [PACELINE, "bench", "grpc", *model.split(), *load.split()]
        program, port = HOME / "bin" / "loadgen", str(about["port"])
        return [program, "127.0.0.1", port, path, body, str(connections), str(duration), *headers]

    log_path = HOME / "logs" / f"{peer}_{mode}{tag}.log"
    with open(log_path, "w") as log:
        server = subprocess.Popen(
            shlex.split(about["cmd"].format(port=about["port"], servers=SERVERS)),
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd=mark.folder,
        )
    try:
        ready_s, first = wait_until_ready(
            server,
            f"http://127.0.0.1:{about['port']}{path}",
            body.read_bytes(),
            {"Content-Type": "application/json", **dict(h.split(": ", 1) for h in headers)},
            log_path,
        )
        pids = mark.pids()
        idle_rss, idle_pss = memory_mb(pids)
        idle_cpu = cpu_seconds(pids)
        time.sleep(2)
        idle_cpu = (cpu_seconds(pids) - idle_cpu) / 2
        for connections in (16, 64):
            subprocess.run(generator(connections, 2), capture_output=True, timeout=60)
        print(
            f"{peer} {mode} ready={ready_s:.2f}s idle_rss={idle_rss}MB idle_pss={idle_pss}MB "
            f"nproc={len(pids)} idle_cpu={idle_cpu:.3f} wait={environment['WAIT_MS']} "
            f"maxb={environment['MAXB']} first={first!r}",
            flush=True,
        )
        for repetition in range(repetitions):
            for connections in counts or settings["conc"]:
                line = measure(mark, generator, connections, seconds)
                if line is None:
                    continue
                line |= {
                    "peer": peer,
                    "mode": mode,
                    "tag": tag,
                    "rep": repetition,
                    "ready_s": round(ready_s, 2),
                    "idle_rss_mb": idle_rss,
                    "idle_pss_mb": idle_pss,
                    "idle_cpu": round(idle_cpu, 3),
                    "wait_ms": environment["WAIT_MS"],
                    "maxb": environment["MAXB"],
                    "at": round(time.time()),
                }
                with open(HOME / "results" / "results.jsonl", "a") as results:
                    results.write(json.dumps(line) + "\n")
                print(
                    f"  r{repetition} c={connections:<4} rps={line['rps']:<9} "
                    f"p50={line['p50_ms']:<8} p99={line['p99_ms']:<8} max={line['max_ms']:<8} "
                    f"err={line['http_err']}({line['first_bad']})/{line['conn_err']}/"
                    f"{line['timeouts']} us/req={line['srv_cpu_us_per_req']} "
                    f"foreign={line['foreign_cpu']} rss={line['rss_mb']}",
                    flush=True,
                )
        if batch_log.exists():
            print("  batch sizes:", batch_log.read_text())
    finally:
        stop(server, mark)


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in PEERS or sys.argv[2] not in MODES:
        sys.exit(f"usage: run.py PEER MODE [REPETITIONS]; {list(PEERS)}; {list(MODES)}")
    if sys.argv[2] == "grpc" and "grpc_model" not in PEERS[sys.argv[1]]:
        sys.exit(f"{sys.argv[1]} speaks no gRPC")
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 2)
