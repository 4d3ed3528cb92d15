#!/usr/bin/env python3
"""Serves the vocoder with Paceline and with mosec on one machine, and says how much each loses.

usage: bench/gpu/run.py --carry FOLDER --out FOLDER [--device cuda|cpu] [--tiny] [--seconds S]

FOLDER of --carry is what prepare.sh made. Needs Python 3.10 or later with torch and NumPy, and no
network. Measured are, one after the other and each in processes of its own: how long a call takes by
its batch; the bare loop, which calls the model with full batches back to back; each server with one
worker and with two, by the number of clients. Everything goes to report.json and report.md in --out.
"""

import argparse
import contextlib
import importlib.util
import json
import lzma
import os
import pathlib
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
BATCHES = [1, 2, 4, 8, 16, 32, 64, 128]
CLIENTS = [1, 2, 4, 8, 16, 32, 64, 128, 256]
MAX_BATCH = 64
READY_S = 120
BEGAN = time.monotonic()


def say(text):
    print(f"[{time.monotonic() - BEGAN:6.1f} s] {text}", flush=True)


class Gpu:
    """How busy the GPU is, asked of nvidia-smi five times a second; nothing where there is none."""

    def __init__(self):
        self._samples = []
        self._process = None
        if shutil.which("nvidia-smi"):
            self._process = subprocess.Popen(
                ["nvidia-smi", "--query-gpu=utilization.gpu,memory.used,power.draw"]
                + ["--format=csv,noheader,nounits", "-lms", "200"],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self._process.stdout:
            with contextlib.suppress(ValueError):
                self._samples.append((time.monotonic(), [float(n) for n in line.split(",")]))

    def between(self, start, end):
        """Means over a stretch of time without its first and last half second."""
        rows = [row for at, row in list(self._samples) if start + 0.5 <= at <= end - 0.5]
        if not rows:
            return {}
        names = ("gpu_percent", "gpu_memory_mib", "gpu_watts")
        return {name: round(statistics.mean(c), 1) for name, c in zip(names, zip(*rows))}

    def stop(self):
        if self._process:
            self._process.terminate()
            self._process.wait()


def unpack(options, folder):
    """Makes what was carried along ready to run."""
    options.binary, options.loadgen = folder / "paceline", folder / "loadgen"
    options.binary.write_bytes(lzma.decompress((options.carry / "paceline.xz").read_bytes()))
    shutil.copy(options.carry / "loadgen", options.loadgen)
    for program in (options.binary, options.loadgen):
        program.chmod(0o755)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def get(url):
    with urllib.request.urlopen(url, timeout=5) as answer:
        return answer.read()


def bare(options, environment, gpu):
    """The batch curve and the bare loop, in a process of its own."""
    command = [sys.executable, HERE / "bare.py", str(options.seconds)]
    command += [",".join(map(str, BATCHES)), str(MAX_BATCH)]
    start = time.monotonic()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    report = {}
    for line in process.stdout:
        part = json.loads(line)
        for name, value in part.items():
            if name.startswith("loop"):
                value |= gpu.between(*value.pop("between"))
            report[name] = value
            say(f"  {name}: {value}")
    if process.wait() != 0:
        sys.exit("the bare loop failed; its error is above")
    report["seconds"] = round(time.monotonic() - start, 1)
    return report


class Server:
    """A server with the vocoder, and how it is asked."""

    def __init__(self, name, workers, command, environment, folder, port, path, body, headers):
        self.name, self.workers = name, workers
        self.port, self.path, self.body, self.headers = port, path, body, headers
        self.log = folder / f"{name}-{workers}.log"
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                [str(word) for word in command],
                env=environment,
                cwd=folder,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait_until_ready(self):
        """Seconds until the first good answer."""
        start, error = time.monotonic(), None
        headers = dict(header.split(": ", 1) for header in self.headers)
        while time.monotonic() - start < READY_S and self.process.poll() is None:
            try:
                url = f"http://127.0.0.1:{self.port}{self.path}"
                request = urllib.request.Request(url, self.body.read_bytes(), headers)
                with urllib.request.urlopen(request, timeout=60) as answer:
                    answer.read()
                    return time.monotonic() - start
            except OSError as failure:
                error = failure
            time.sleep(0.1)
        tail = self.log.read_text(errors="replace")[-3000:]
        sys.exit(f"{self.name} is not ready ({error}); its log ends:\n{tail}")

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def paceline(options, environment, folder, workers):
    """Paceline with the class in worker processes, asked over HTTP with binary tensors."""
    port = free_port()
    version = folder / "models" / "vocoder" / "1"
    version.mkdir(parents=True, exist_ok=True)
    for file in ("vocoder.py", "model.py"):
        shutil.copy(HERE / file, version)
    (version.parent / "model.toml").write_text(
        f'backend = "python"\ninstances = {workers}\n[python]\nclass = "model:Vocode"\n'
        f'interpreter = "{sys.executable}"\n[batch]\nmax_items = {MAX_BATCH}\nmax_wait = "5ms"\n'
    )
    (folder / "paceline.toml").write_text(
        f'[server]\nlisten = "127.0.0.1:{port}"\ngrpc_listen = "127.0.0.1:0"\n'
        f'model_repository = "{folder / "models"}"\n'
    )
    mels, frames = shape(options)
    head = {
        "inputs": [
            {
                "name": "mel",
                "datatype": "FP32",
                "shape": [1, mels, frames],
                "parameters": {"binary_data_size": 4 * mels * frames},
            }
        ],
        "outputs": [{"name": "audio", "parameters": {"binary_data": True}}],
    }
    head = json.dumps(head).encode()
    body = folder / "body_paceline"
    body.write_bytes(head + struct.pack(f"<{mels * frames}f", *numbers(mels * frames)))
    return Server(
        "paceline",
        workers,
        [options.binary, "serve", "--config", folder / "paceline.toml"],
        environment,
        folder,
        port,
        "/v2/models/vocoder/infer",
        body,
        [f"Inference-Header-Content-Length: {len(head)}"],
    )


def install(wheels, venv):
    """Puts wheels into an environment; the machine may have no pip."""
    (packages,) = venv.glob("lib/python*/site-packages")
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(packages)
    for script in packages.glob("*.data/scripts/*"):
        shutil.copy(script, venv / "bin")
        (venv / "bin" / script.name).chmod(0o755)


def mosec(options, environment, folder, workers):
    """mosec with the same class, asked with raw bytes."""
    port = free_port()
    mels, frames = shape(options)
    body = folder / "body_mosec"
    body.write_bytes(struct.pack(f"<{mels * frames}f", *numbers(mels * frames)))
    # mosec looks for its program in the environment of the interpreter that runs it.
    venv = folder / "venv"
    python = venv / "bin" / "python"
    if not venv.exists():
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
        install(sorted((options.carry / "wheels").glob("*.whl")), venv)
    packages = pathlib.Path(importlib.util.find_spec("torch").origin).parents[1]
    environment = environment | {
        "PYTHONPATH": str(packages),
        "WORKERS": str(workers),
        "MAX_BATCH": str(MAX_BATCH),
        "WAIT_MS": "5",
    }
    command = [python, HERE / "mosec_srv.py", "--address", "127.0.0.1", "--port", port]
    command += ["--timeout", "60000", "--capacity", "4096", "--log-level", "warning"]
    return Server(
        "mosec", workers, command, environment, folder, port, "/inference", body, []
    )


def shape(options):
    return 80, 8 if options.tiny else 61


def numbers(count):
    return [(at * 7919 % 101) / 101 for at in range(count)]


def batches(server):
    """Rows and calls so far, where the server says."""
    if server.name != "paceline":
        return None
    url = f"http://127.0.0.1:{server.port}/v2/models/vocoder/stats"
    about = json.loads(get(url))["model_stats"][0]
    return about["inference_count"], about["execution_count"]


def load(options, server, clients, seconds):
    words = [options.loadgen, "127.0.0.1", server.port, server.path, server.body]
    words += [clients, seconds, *server.headers]
    done = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, timeout=seconds + 60
    )
    if done.returncode != 0:
        sys.exit(f"the load generator failed: {done.stderr}")
    return json.loads(done.stdout)


def observe(options, server):
    """What Paceline itself says of the GPU while it is under load, for whoever wants to compare."""
    url = f"http://127.0.0.1:{server.port}"
    load_it = threading.Thread(target=load, args=(options, server, MAX_BATCH, 4))
    load_it.start()
    time.sleep(1.5)
    top = subprocess.run(
        [str(options.binary), "top", "--once", "--url", url], capture_output=True, text=True
    )
    lines = get(f"{url}/metrics").decode().splitlines()
    load_it.join()
    gpu = [line for line in lines if "_gpu_" in line]
    name = f"{server.name}-{server.workers}"
    (options.out / f"{name}-gpu-metrics.txt").write_text("".join(f"{line}\n" for line in gpu))
    (options.out / f"{name}-top.txt").write_text(top.stdout + top.stderr)
    say(f"  {sum(not line.startswith('#') for line in gpu)} values of a GPU in /metrics")


def measure(options, server, gpu):
    """One server by the number of clients."""
    try:
        ready_s = server.wait_until_ready()
        say(f"  ready after {ready_s:.1f} s; warming up")
        load(options, server, 2 * MAX_BATCH, min(3, options.seconds))
        points = []
        for clients in options.clients:
            before, start = batches(server), time.monotonic()
            line = load(options, server, clients, options.seconds)
            point = {
                "clients": clients,
                "per_second": round(line["ok"] / line["secs"], 1),
                "p50_ms": line["p50_ms"],
                "p99_ms": line["p99_ms"],
                "errors": line["http_err"] + line["conn_err"] + line["timeouts"],
            } | gpu.between(start, time.monotonic())
            if before:
                rows, calls = (b - a for a, b in zip(before, batches(server)))
                point["batch"] = round(rows / max(1, calls), 1)
            points.append(point)
            say("  " + " ".join(f"{name}={value}" for name, value in point.items()))
        if server.name == "paceline":
            observe(options, server)
        return {"workers": server.workers, "ready_s": round(ready_s, 1), "points": points}
    finally:
        server.stop()


def table(columns, rows):
    lines = [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
    return lines + [f"| {' | '.join(str(cell) for cell in row)} |" for row in rows]


def markdown(report):
    """The report for readers."""
    loop, compute = report["bare"]["loop"], report["bare"]["loop_compute_only"]
    lines = [f"{report['machine']}", "", "## A call by its batch", ""]
    curve = report["bare"]["curve"]
    rows = [[c["batch"], c["ms"], round(c["ms"] / c["batch"], 3), c["compute_ms"]] for c in curve]
    lines += table(["batch", "ms a call", "ms an item", "of it on the device, ms"], rows)
    lines += ["", "## The most that there is", ""]
    rows = [
        [name, one["batch"], one["per_second"], one.get("gpu_percent", "")]
        for name, one in (("bare loop", loop), ("bare loop, nothing copied", compute))
    ]
    lines += table(["", "batch", "items/s", "GPU busy %"], rows)
    best = {}
    for server in report["servers"]:
        lines += ["", f"## {server['name']}, {server['workers']} worker(s)", ""]
        names = ["clients", "items/s", "share of the bare loop", "p50 ms", "p99 ms"]
        names += ["mean batch", "GPU busy %", "errors"]
        rows = []
        for p in server["points"]:
            share = p["per_second"] / loop["per_second"]
            best[server["name"]] = max(best.get(server["name"], 0), share)
            rows.append(
                [p["clients"], p["per_second"], f"{share:.1%}", p["p50_ms"], p["p99_ms"]]
                + [p.get("batch", ""), p.get("gpu_percent", ""), p["errors"]]
            )
        lines += table(names, rows)
    lines += ["", "## Best share of the bare loop", ""]
    lines += table(["server", "share"], [[name, f"{share:.1%}"] for name, share in best.items()])
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--carry", type=pathlib.Path, required=True, help="what prepare.sh made")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="where the report goes")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--tiny", action="store_true", help="a network for trying this script")
    parser.add_argument("--seconds", type=float, default=3, help="for each point")
    parser.add_argument("--clients", default=",".join(map(str, CLIENTS)))
    parser.add_argument("--servers", default="paceline:1,paceline:2,mosec:1,mosec:2")
    options = parser.parse_args()
    options.carry = options.carry.resolve()
    options.clients = [int(word) for word in options.clients.split(",")]
    options.out.mkdir(parents=True, exist_ok=True)
    environment = os.environ | {
        "VOCODER_DEVICE": options.device,
        "VOCODER_TINY": "1" if options.tiny else "0",
        "PYTHONUNBUFFERED": "1",
    }
    gpu = Gpu()
    with tempfile.TemporaryDirectory(prefix="paceline-gpu-") as folder:
        folder = pathlib.Path(folder)
        unpack(options, folder)
        say("the bare loop")
        report = {"bare": bare(options, environment, gpu), "servers": []}
        report["machine"] = report["bare"].pop("machine")
        for word in options.servers.split(","):
            name, workers = word.split(":")
            say(f"{name}, {workers} worker(s)")
            start = {"paceline": paceline, "mosec": mosec}[name]
            server = start(options, environment, folder, int(workers))
            report["servers"].append({"name": name} | measure(options, server, gpu))
            # What is there so far is kept, whatever happens next.
            (options.out / "report.json").write_text(json.dumps(report, indent=1) + "\n")
            (options.out / "report.md").write_text(markdown(report))
        for log in folder.glob("*.log"):
            shutil.copy(log, options.out)
    gpu.stop()
    say(f"done; {options.out}/report.md")
    print(markdown(report))


if __name__ == "__main__":
    main()
