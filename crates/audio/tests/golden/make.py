"""Makes `silero_*.f32` beside it: what ONNX Runtime 1.31.1 answers for the published model.

    pip install onnxruntime==1.31.1 numpy
    pip download --no-deps silero-vad==6.2.3 && unzip silero_vad-6.2.3-py3-none-any.whl
    python crates/audio/tests/golden/make.py silero_vad/data/silero_vad.onnx

`jfk.wav` is an input and is not made here: 11 s of J. F. Kennedy's inaugural address, 1961 (public
domain), 16 kHz; 8 kHz takes every second sample. The noise is computed, by integers only, so that
the Rust tests compute the very same. For each rate, as little-endian float32, one after the other:

- a probability for each frame of the speech;
- the same with a context of zeros before every frame, which a detector must not give;
- a probability for each frame of the noise, then the last state.
"""

import pathlib
import sys
import wave

import numpy
import onnxruntime

HERE = pathlib.Path(__file__).parent


def noise(seed, n):
    """Numbers from -1 to 1, exact in float32, that become louder for a while, again and again."""
    state = seed
    values = []
    for at in range(n):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        loud = at % 8192 // 64 / 128
        values.append(((state >> 48) - 32768) / 32768 * loud)
    return numpy.array(values, numpy.float32)


def answers(model, rate, samples, keeps_context):
    frame = rate * 32 // 1000
    context = numpy.zeros(frame // 8, numpy.float32)
    state = numpy.zeros((2, 1, 128), numpy.float32)
    probabilities = []
    for at in range(0, len(samples) - frame + 1, frame):
        window = numpy.concatenate([context, samples[at : at + frame]])
        inputs = {"input": window[None], "state": state, "sr": numpy.array(rate, numpy.int64)}
        probability, state = model.run(None, inputs)
        probabilities.append(probability.ravel())
        if keeps_context:
            context = window[-len(context) :]
    return numpy.concatenate(probabilities), state.ravel()


def main(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    model = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    with wave.open(str(HERE / "jfk.wav")) as file:
        speech = numpy.frombuffer(file.readframes(file.getnframes()), "<i2")
    speech = speech.astype(numpy.float32) / 32768
    for rate, name in ((8000, "8k"), (16000, "16k")):
        heard = speech[:: 16000 // rate]
        parts = [
            answers(model, rate, heard, True)[0],
            answers(model, rate, heard, False)[0],
            *answers(model, rate, noise(1, 100 * rate * 32 // 1000), True),
        ]
        print(name, [len(part) for part in parts], numpy.abs(parts[0] - parts[1]).max())
        numpy.concatenate(parts).astype("<f4").tofile(HERE / f"silero_{name}.f32")


if __name__ == "__main__":
    main(*sys.argv[1:])
