"""Runs bench/metrics.sh's rounds and prints its table."""

import json
import statistics
import subprocess
import sys
import threading
import time
import urllib.request

binary, uncounted, collector = sys.argv[1:4]
rounds, seconds, connections = (int(n) for n in sys.argv[4:7])
BODY = '{"INPUT":[1.0,2.0,3.0,4.0]}'
SETS = ["server.model_repository=none"]


class Server:
    def __init__(self, program, sets):
        arguments = [part for one in SETS + sets for part in ("--set", one)]
        self.process = subprocess.Popen(
            [program, "serve", "--listen=127.0.0.1:0", "--grpc-listen=127.0.0.1:0", *arguments],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            said = json.loads(line)
            if said.get("message") == "serving":
                self.http = said["http"]
                break
        else:
            sys.exit(f"{program} did not start")
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def load(self):
        """Answers a second."""
        out = subprocess.run(
            [binary, "bench", "http", "--url", f"http://{self.http}/v1/models/simulated/infer",
             "--body", BODY, "--json", "--concurrency", str(connections),
             "--duration", f"{seconds}s", "--warm-up", "500ms"],
            capture_output=True, text=True, check=True)
        return json.loads(out.stdout)["rows"][0]["answers_per_s"]

    def stop(self):
        self.process.terminate()
        self.process.wait()


def scrape(server, over):
    while not over.wait(1.0):
        urllib.request.urlopen(f"http://{server.http}/metrics", timeout=10).read()


collecting = subprocess.Popen([collector], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
endpoint = "tracing.endpoint=" + collecting.stdout.readline().strip()
KINDS = {
    "uncounted": (uncounted, []),
    "counted": (binary, []),
    "scraped": (binary, []),
    "traced": (binary, [endpoint]),
    "sampled": (binary, [endpoint, "tracing.sample=0.01"]),
}
results = {kind: [] for kind in KINDS}
for number in range(rounds):
    order = list(KINDS)
    order = order[number % len(order):] + order[:number % len(order)]
    for kind in order:
        server = Server(*KINDS[kind])
        over = threading.Event()
        if kind == "scraped":
            threading.Thread(target=scrape, args=(server, over), daemon=True).start()
        results[kind].append(server.load())
        over.set()
        server.stop()
        time.sleep(0.2)
collecting.kill()

print(f"{rounds} rounds of {seconds} s, {connections} connections\n")
print(f"{'':12}{'answers/s':>12}{'against':>12}{'cost':>9}{'of rounds':>20}")
for kind, base in [("uncounted", None), ("counted", "uncounted"), ("scraped", "counted"), ("traced", "counted"), ("sampled", "counted")]:
    line = f"{kind:12}{statistics.median(results[kind]):12.0f}"
    if base:
        costs = sorted(100 * (1 - own / other) for own, other in zip(results[kind], results[base]))
        line += f"{base:>12}{statistics.median(costs):8.1f}%{costs[0]:+10.1f}%..{costs[-1]:+.1f}%"
    print(line)
