"""Synthetic speech: espeak-ng at a speed, at 16 kHz, with noise at a level."""

import ctypes

import espeakng_loader
import numpy

RATE = 16000


class Voice:
    """espeak-ng, loaded once."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL(espeakng_loader.get_library_path())
        # Samples come by a callback, and nothing is played.
        retrieval = 1
        path = str(espeakng_loader.get_data_path()).encode()
        self.rate = self.library.espeak_Initialize(retrieval, 0, path, 0)
        assert self.rate > 0, "espeak-ng does not start"
        assert self.library.espeak_SetVoiceByName(b"en-us") == 0
        self.pieces: list[numpy.ndarray] = []

        kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p)

        def hear(samples, count, _events):
            if samples and count:
                self.pieces.append(numpy.ctypeslib.as_array(samples, (count,)).copy())
            return 0

        self.callback = kind(hear)
        self.library.espeak_SetSynthCallback(self.callback)

    def say(self, text: str, words_per_minute: int) -> numpy.ndarray:
        """Samples from -1 to 1 at RATE, with half a second of silence before and after."""
        speed = 1
        self.library.espeak_SetParameter(speed, words_per_minute, 0)
        self.pieces = []
        data = text.encode()
        assert self.library.espeak_Synth(data, len(data) + 1, 0, 0, 0, 1, None, None) == 0
        assert self.library.espeak_Synchronize() == 0
        samples = resample(numpy.concatenate(self.pieces) / 32768, self.rate, RATE)
        silence = numpy.zeros(RATE // 2)
        return numpy.concatenate([silence, samples / max(abs(samples).max(), 1e-9) * 0.5, silence])


def resample(samples: numpy.ndarray, rate: int, to: int) -> numpy.ndarray:
    """Another rate, through the spectrum of the whole."""
    count = len(samples) * to // rate
    spectrum = numpy.fft.rfft(samples)[: count // 2 + 1]
    return numpy.fft.irfft(spectrum, count) * count / len(samples)


def noisy(samples: numpy.ndarray, decibels: float | None, seed: int) -> numpy.ndarray:
    """With noise that falls with frequency as rooms' does, so many decibels below the speech."""
    if decibels is None:
        return samples
    random = numpy.random.default_rng(seed)
    spectrum = numpy.fft.rfft(random.standard_normal(len(samples)))
    spectrum /= numpy.sqrt(numpy.arange(len(spectrum)) + 1)
    noise = numpy.fft.irfft(spectrum, len(samples))
    power = lambda signal: float((signal**2).mean())
    noise *= numpy.sqrt(power(samples) / power(noise) / 10 ** (decibels / 10))
    return samples + noise


def quantised(samples: numpy.ndarray) -> numpy.ndarray:
    """As 16-bit samples, which is what is sent."""
    return (samples.clip(-1, 1) * 32767).round().astype("<i2")
