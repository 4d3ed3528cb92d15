"""A server of this script's own, and the three ways to ask it."""

import asyncio
import json
import random
import subprocess
import tempfile
import time
import urllib.request

import numpy
import websockets

FORMAT = {"encoding": "s16le", "sample_rate": 16000, "channels": 1}


class Server:
    """Runs for as long as it is used."""

    def __init__(self, binary: str, repository: str) -> None:
        self.log = tempfile.NamedTemporaryFile("r")
        command = [binary, "serve", "--stop-with-stdin", "--listen=127.0.0.1:0", "--grpc-listen=127.0.0.1:0"]
        command += [f"--model-repository={repository}"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=open(self.log.name, "w"))

    def __enter__(self) -> "Server":
        began = time.monotonic()
        while True:
            lines = self.log.readlines()
            for line in lines:
                if line.startswith("{") and json.loads(line).get("message") == "serving":
                    self.address = json.loads(line)["http"]
                    return self
            assert self.process.poll() is None and time.monotonic() < began + 120, "the server did not start"
            time.sleep(0.02)

    def __exit__(self, *_) -> None:
        self.process.stdin.close()
        self.process.wait(30)

    def infer(self, samples: numpy.ndarray) -> str:
        """What the model says of 16-bit samples, in one request."""
        audio = (samples.astype("<f4") / 32768).astype("<f4").tobytes()
        head = {"inputs": [{"name": "AUDIO", "datatype": "FP32", "shape": [1, len(samples)],
                            "parameters": {"binary_data_size": len(audio)}}]}
        head = json.dumps(head).encode()
        headers = {"Inference-Header-Content-Length": str(len(head)), "Content-Type": "application/octet-stream"}
        url = f"http://{self.address}/v2/models/moonshine/infer"
        with urllib.request.urlopen(urllib.request.Request(url, head + audio, headers)) as answer:
            return json.load(answer)["outputs"][0]["data"][0]

    async def infer_all(self, clips: list, at_once: int) -> list[str]:
        """The same for all of them, so many at once."""
        gate = asyncio.Semaphore(at_once)

        async def one(samples):
            async with gate:
                return await asyncio.to_thread(self.infer, samples)

        return await asyncio.gather(*map(one, clips))

    async def stream(self, samples: numpy.ndarray, seed: int, interim: bool = False) -> list[dict]:
        """Every segment of a clip that is sent in random pieces; at the pace of speech for interim results."""
        chance = random.Random(seed)
        data = samples.tobytes()
        segments = []
        async with websockets.connect(f"ws://{self.address}/api/v1/segmented", max_queue=None) as socket:
            async def hear():
                async for message in socket:
                    event = json.loads(message)
                    assert event["type"] != "error", event
                    if event["type"] == "segment":
                        segments.append(event)

            hearing = asyncio.create_task(hear())
            start = {"request": "start", "format": FORMAT, "interim_results": interim}
            await socket.send(json.dumps(start))
            at = 0
            while at < len(data):
                size = chance.randint(1, 6400)
                await socket.send(data[at : at + size])
                at += size
                if interim:
                    await asyncio.sleep(size / 32000)
            await socket.send(json.dumps({"request": "stop", "disconnect": True}))
            await hearing
        return segments
