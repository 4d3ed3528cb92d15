"""A vocoder-like network of HiFi-GAN's size with random weights, and the class that serves it.

Eighty mel bands in, 256 samples of audio out for each frame: transposed convolutions that upsample,
each followed by three stacks of dilated convolutions. What it says is noise; what it costs is real.
"""

import os

import torch
from torch import nn

DEVICE = os.environ.get("VOCODER_DEVICE", "cuda")
IS_TINY = os.environ.get("VOCODER_TINY") == "1"
MELS = 80
FRAMES = 8 if IS_TINY else 61
CHANNELS = 16 if IS_TINY else 512
# Each stage's upsampling and kernel; the product of the first is samples for each frame.
STAGES = [(4, 8), (4, 8)] if IS_TINY else [(8, 16), (8, 16), (2, 4), (2, 4)]
SAMPLES = FRAMES * (16 if IS_TINY else 256)
KERNELS, DILATIONS = (3, 7, 11), (1, 3, 5)
# Processors compute brain floating point slowly.
DTYPE = torch.float32 if DEVICE == "cpu" else torch.bfloat16


class Residual(nn.Module):
    """A stack of dilated convolutions, each added to what went in."""

    def __init__(self, channels, kernel):
        super().__init__()
        conv = lambda dilation: nn.Conv1d(
            channels, channels, kernel, dilation=dilation, padding=dilation * (kernel - 1) // 2
        )
        self.wide = nn.ModuleList(conv(dilation) for dilation in DILATIONS)
        self.narrow = nn.ModuleList(conv(1) for _ in DILATIONS)

    def forward(self, x):
        for wide, narrow in zip(self.wide, self.narrow):
            y = wide(nn.functional.leaky_relu(x, 0.1))
            x = x + narrow(nn.functional.leaky_relu(y, 0.1))
        return x


class Vocoder(nn.Module):
    """Mel spectrogram to samples."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv1d(MELS, CHANNELS, 7, padding=3)
        self.up, self.stacks = nn.ModuleList(), nn.ModuleList()
        channels = CHANNELS
        for factor, kernel in STAGES:
            padding = (kernel - factor) // 2
            self.up.append(nn.ConvTranspose1d(channels, channels // 2, kernel, factor, padding))
            channels //= 2
            self.stacks.append(nn.ModuleList(Residual(channels, kernel) for kernel in KERNELS))
        self.last = nn.Conv1d(channels, 1, 7, padding=3)

    def forward(self, mel):
        x = self.first(mel)
        for up, stacks in zip(self.up, self.stacks):
            x = up(nn.functional.leaky_relu(x, 0.1))
            x = sum(stack(x) for stack in stacks) / len(stacks)
        return torch.tanh(self.last(nn.functional.leaky_relu(x)))[:, 0]


class Speaker:
    """What all servers serve: mel spectrograms in, 16-bit samples out."""

    def __init__(self):
        torch.manual_seed(0)
        torch.set_num_threads(1)
        self.net = Vocoder().to(DEVICE, DTYPE).eval()

    @torch.inference_mode()
    def speak(self, mel):
        """From a tensor of mel spectrograms on the device to one of samples there."""
        return (self.net(mel.to(DTYPE)) * 32767).to(torch.int16)
