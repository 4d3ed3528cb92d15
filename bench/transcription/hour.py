"""An hour of audio through every way in for files, and the most memory that it took beside two minutes of the same.

usage: bench/transcription/hour.py [MINUTES] (default: 60). Wants target/release/paceline.
The audio is the clips of this repository over and over, with pauses.
"""

import http.client
import itertools
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import wave

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BINARY = ROOT / "target/release/paceline"
CLIPS = ["crates/cli/assets/speech.wav", "crates/asr/tests/golden/beckett.wav", "crates/asr/tests/golden/two_cities.wav"]
RATE = 16000
PAUSE = bytes(2 * 4 * RATE)


def record(path: pathlib.Path, minutes: int, rate: int = RATE) -> None:
    """Writes a file so long; at half the rate, every second sample is left out."""
    left = minutes * 60 * RATE * 2
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, rate, 0, "NONE", ""))
        for clip in itertools.cycle(CLIPS):
            with wave.open(str(ROOT / clip)) as source:
                data = (source.readframes(source.getnframes()) + PAUSE)[:left]
            left -= len(data)
            if rate != RATE:
                data = b"".join(data[at : at + 2] for at in range(0, len(data), 2 * RATE // rate))
            file.writeframes(data)
            if not left:
                return


def by_command(path: pathlib.Path) -> tuple[float, int]:
    """`paceline transcribe`: client and server are one process. Its most memory in MB, and the words."""
    process = subprocess.Popen([BINARY, "transcribe", path], cwd=ROOT, stdout=subprocess.PIPE)
    text = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0, status
    return usage.ru_maxrss / 1024, len(text.split())


class Server:
    """A server of this script's own."""

    def __enter__(self) -> "Server":
        command = [BINARY, "serve", "--stop-with-stdin", "--listen=127.0.0.1:0", "--grpc-listen=127.0.0.1:0"]
        self.log = tempfile.NamedTemporaryFile("r")
        self.process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stderr=open(self.log.name, "w"))
        while True:
            for line in self.log.readlines():
                if line.startswith("{") and json.loads(line).get("message") == "serving":
                    self.address = json.loads(line)["http"]
                    return self
            assert self.process.poll() is None, "the server did not start"
            time.sleep(0.05)

    def __exit__(self, *_) -> None:
        self.process.stdin.close()
        self.process.wait(30)

    def post(self, to: str, pieces, length: int, kind: str) -> bytes:
        connection = http.client.HTTPConnection(self.address, timeout=1800)
        connection.request("POST", to, pieces, {"content-type": kind, "content-length": str(length)})
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status == 200, (answer.status, body[:300])
        return body

    def most(self) -> float:
        """The most memory that it had so far, in MB."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024


def by_listen(path: pathlib.Path) -> tuple[float, int]:
    with Server() as server, open(path, "rb") as file:
        body = server.post("/v1/listen", file, path.stat().st_size, "audio/wav")
        text = json.loads(body)["results"]["channels"][0]["alternatives"][0]["transcript"]
        return server.most(), len(text.split())


def by_form(path: pathlib.Path) -> tuple[float, int]:
    head = b'--x\r\ncontent-disposition: form-data; name="model"\r\n\r\nmoonshine\r\n'
    head += b'--x\r\ncontent-disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'
    tail = b"\r\n--x--\r\n"
    with Server() as server, open(path, "rb") as file:
        pieces = itertools.chain([head], iter(lambda: file.read(1 << 16), b""), [tail])
        length = len(head) + path.stat().st_size + len(tail)
        body = server.post("/v1/audio/transcriptions", pieces, length, "multipart/form-data; boundary=x")
        return server.most(), len(json.loads(body)["text"].split())


def main() -> None:
    minutes = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    print(f"{'':<34}{'audio':>8}{'took':>9}{'words':>8}{'most memory':>14}")
    with tempfile.TemporaryDirectory() as folder:
        for name, way, rate in [
            ("paceline transcribe", by_command, RATE),
            ("POST /v1/listen", by_listen, RATE),
            # A form is held as a whole, and an hour at the full rate is more than one may be.
            ("POST /v1/audio/transcriptions", by_form, RATE // 2),
        ]:
            for length in (2, minutes):
                path = pathlib.Path(folder) / "audio.wav"
                record(path, length, rate)
                began = time.monotonic()
                most, n_words = way(path)
                took = time.monotonic() - began
                print(f"{name:<34}{length:>4} min{took:>7.1f} s{n_words:>8}{most:>11.0f} MB", flush=True)


if __name__ == "__main__":
    main()
