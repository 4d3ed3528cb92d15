"""Makes what the tests compare with.

usage: make.py ENCODER.onnx DECODER.onnx AUDIO_FOLDER

AUDIO_FOLDER has jfk.wav, beckett.wav and two_cities.wav. Needs numpy, soundfile and onnxruntime, with
its optimisations off: with them on it rounds what goes between layers to bytes.

encoder.f32: the encoder's output for the first 3 s of jfk, every tenth frame.
clips.txt: for each clip its file, its first sample and how many, its tokens; then its text.
"""

import pathlib
import sys

import numpy as np
import onnxruntime
import soundfile

HERE = pathlib.Path(__file__).parent
RATE = 16000


def session(path):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(path, options)


def encode(encoder, samples):
    mask = np.ones((1, len(samples)), np.int64)
    return encoder.run(None, {"input_values": samples[None], "attention_mask": mask})[0]


def decode(decoder, hidden, n_samples):
    names = [value.name for value in decoder.get_inputs()]
    past = {name: np.zeros((1, 8, 0, 36), np.float32) for name in names if name.startswith("past")}
    outputs = [value.name for value in decoder.get_outputs()]
    tokens, token = [], 1
    for step in range(max(1, n_samples * 13 // (2 * RATE))):
        values = {
            "input_ids": np.array([[token]], np.int64),
            "encoder_hidden_states": hidden,
            "encoder_attention_mask": np.ones((1, n_samples), np.int64),
            "use_cache_branch": np.array([step > 0]),
        } | past
        logits, *present = decoder.run(None, values)
        token = int(logits[0, -1].argmax())
        if token == 2:
            break
        tokens.append(token)
        for name, value in zip(outputs[1:], present):
            name = name.replace("present", "past_key_values")
            if step == 0 or "decoder" in name:
                past[name] = value
    return tokens


def vocabulary():
    file = (HERE / "../../../../models/moonshine/1/tokenizer.bin").read_bytes()
    tokens, at = [], 0
    while at < len(file):
        n_bytes, at = file[at], at + 1
        if n_bytes >= 128:
            n_bytes, at = file[at] * 128 + n_bytes - 128, at + 1
        tokens.append(file[at : at + n_bytes])
        at += n_bytes
    return tokens


def main(encoder_path, decoder_path, audio):
    encoder, decoder, words = session(encoder_path), session(decoder_path), vocabulary()
    audio = pathlib.Path(audio)
    cities, rate = soundfile.read(audio / "two_cities.wav", dtype="float32", frames=30 * 48000)
    assert rate == 3 * RATE
    soundfile.write(HERE / "two_cities.wav", cities.reshape(-1, 3).mean(1), RATE, subtype="PCM_16")
    beckett, rate = soundfile.read(audio / "beckett.wav", dtype="int16")
    soundfile.write(HERE / "beckett.wav", beckett, rate, subtype="PCM_16")
    jfk, _ = soundfile.read(audio / "jfk.wav", dtype="float32")
    encode(encoder, jfk[: 3 * RATE])[0, ::10].astype("<f4").tofile(HERE / "encoder.f32")

    lines = []
    for name, first, last in (
        ("jfk", 0, 11),
        ("jfk", 0, 4.5),
        ("beckett", 0, 9.9),
        ("two_cities", 0, 6),
        ("two_cities", 6, 13),
        ("two_cities", 13, 15.5),
        ("two_cities", 10, 30),
    ):
        source = audio / "jfk.wav" if name == "jfk" else HERE / f"{name}.wav"
        samples, _ = soundfile.read(source, dtype="float32")
        first, last = int(first * RATE), int(last * RATE)
        samples = samples[first:last]
        tokens = decode(decoder, encode(encoder, samples), len(samples))
        text = b"".join(words[token] for token in tokens).decode().replace("\u2581", " ").strip()
        lines += [f"{name} {first} {len(samples)} {' '.join(map(str, tokens))}", text]
    (HERE / "clips.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
