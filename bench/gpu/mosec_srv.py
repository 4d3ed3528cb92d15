"""The same vocoder served by mosec: raw bytes in, raw bytes out."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import numpy as np
import torch
from mosec import Server, Worker
from vocoder import DEVICE, FRAMES, MELS, Speaker


class Vocode(Worker):
    def __init__(self):
        self.speaker = Speaker()

    def deserialize(self, data):
        return np.frombuffer(data, np.float32).reshape(MELS, FRAMES)

    def serialize(self, data):
        return data.tobytes()

    def forward(self, data):
        mel = torch.from_numpy(np.stack(data)).to(DEVICE)
        return list(self.speaker.speak(mel).cpu().numpy())


if __name__ == "__main__":
    server = Server()
    server.append_worker(
        Vocode,
        num=int(os.environ["WORKERS"]),
        max_batch_size=int(os.environ["MAX_BATCH"]),
        max_wait_time=int(os.environ["WAIT_MS"]),
        timeout=60,
    )
    server.run()
