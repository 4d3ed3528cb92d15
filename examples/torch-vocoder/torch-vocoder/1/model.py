"""A vocoder in PyTorch: windows of tokens to sound, for many listeners in one call.

It hums a note for each token in the colour of the voice. What a real one needs is here: per-row
lengths, a voice per row, and whether a window is the last. Put your network into `load`.
"""

import math

import numpy as np
import torch

from paceline import Model, TensorSpec

TOKEN_SAMPLES = 960
RATE = 24_000


class Hum(torch.nn.Module):
    """Tokens to samples; row by row, so that nobody's sound depends on a neighbour."""

    def forward(self, tokens: torch.Tensor, voices: torch.Tensor) -> torch.Tensor:
        pitch = 110.0 * 2.0 ** ((tokens % 24).float() / 12.0)
        pitch = pitch.repeat_interleave(TOKEN_SAMPLES, dim=1)
        phase = torch.cumsum(pitch * (2 * math.pi / RATE), dim=1)
        overtones = torch.arange(1, voices.shape[1] + 1, device=tokens.device)
        waves = torch.sin(phase[:, :, None] * overtones) * voices[:, None, :]
        return waves.sum(dim=2) / voices.abs().sum(dim=1, keepdim=True).clamp(min=1e-6)


class Vocoder(Model):
    inputs = {
        "tokens": TensorSpec("INT32", [-1]),
        "lengths": TensorSpec("INT32", []),
        "embedding": TensorSpec("FP32", [4]),
        "finalize": TensorSpec("BOOL", [1]),
    }
    outputs = {"audio": TensorSpec("FP32", [-1])}
    max_batch = 32

    def load(self):
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.hum = Hum().to(self.device).eval()

    def infer(self, batch):
        with torch.inference_mode():
            sound = self.hum(batch.torch("tokens", self.device), batch.torch("embedding", self.device))
        sound = sound.cpu().numpy()
        # The last chunk of a text dies away; the others go on in the next one.
        fade = np.linspace(1.0, 0.0, TOKEN_SAMPLES, dtype=np.float32)
        for row in np.flatnonzero(batch["finalize"][:, 0]):
            end = int(batch["lengths"][row]) * TOKEN_SAMPLES
            sound[row, max(0, end - TOKEN_SAMPLES) : end] *= fade[: min(TOKEN_SAMPLES, end)]
        return {"audio": sound}
