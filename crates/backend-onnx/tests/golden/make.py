"""Makes the files beside it: what ONNX Runtime 1.31.1 answers, one row at a time.

    pip install onnxruntime==1.31.1 numpy
    python crates/backend-onnx/tests/golden/make.py

`speech.i16` is an input and is not made here: 0.45 s of J. F. Kennedy's inaugural address, 1961
(public domain), 16 kHz. The other inputs are computed, by integers only, so that the Rust tests
compute the very same ones. All files are little-endian.
"""

import pathlib

import numpy
import onnxruntime

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[3]


def session(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def noise(seed, n):
    """Numbers from -1 to 1, exact in float32."""
    state = seed
    values = []
    for _ in range(n):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        values.append(((state >> 48) - 32768) / 32768)
    return numpy.array(values, numpy.float32)


def save(name, arrays):
    flat = [numpy.asarray(array, numpy.float32).ravel() for array in arrays]
    numpy.concatenate(flat).astype("<f4").tofile(HERE / name)


def magika():
    """Four files: Rust, JSON, English and noise. Answers: 214 probabilities each."""
    model = session(ROOT / "models/magika/1/model.onnx")
    texts = [
        b"fn main() { println!(\"{}\", 1 + 1); }\n" * 9,
        b"{\"name\": \"paceline\", \"list\": [1, 2, 3]}\n",
        b"It was the best of times, it was the worst of times.\n" * 40,
        bytes(int((value + 1) * 128) for value in noise(1, 3000)),
    ]
    answers = []
    for text in texts:
        row = numpy.full(2048, 256, numpy.int32)
        head, tail = text[:1024], text[-1024:]
        row[: len(head)] = list(head)
        row[2048 - len(tail) :] = list(tail)
        answers += model.run(None, {"bytes": row[None]})
    save("magika.f32", answers)


def blazeface():
    """Three noisy pictures. Answers: boxes and logits of every eighth anchor."""
    model = session(ROOT / "models/blazeface/1/model.onnx")
    answers = []
    for seed in (1, 2, 3):
        picture = noise(seed, 3 * 128 * 128).reshape(1, 3, 128, 128)
        boxes, logits = model.run(None, {"input": picture})
        answers += [boxes[:, ::8], logits[:, ::8]]
    save("blazeface.f32", answers)


def silero():
    """Three streams of 14 frames: speech, noise, silence. Answers: 14 probabilities, last state."""
    model = session(HERE.parent / "models/silero-vad/model.onnx")
    speech = numpy.fromfile(HERE / "speech.i16", "<i2").astype(numpy.float32) / 32768
    n_frames = len(speech) // 512
    answers = []
    for stream in (speech, noise(1, len(speech)), numpy.zeros(len(speech), numpy.float32)):
        state = numpy.zeros((2, 1, 128), numpy.float32)
        padded = numpy.concatenate([numpy.zeros(64, numpy.float32), stream])
        for frame in range(n_frames):
            window = padded[frame * 512 : frame * 512 + 576][None]
            inputs = {"input": window, "state": state, "sr": numpy.array(16000, numpy.int64)}
            probability, state = model.run(None, inputs)
            answers.append(probability)
        answers.append(state)
    save("silero.f32", answers)


if __name__ == "__main__":
    magika()
    blazeface()
    silero()
