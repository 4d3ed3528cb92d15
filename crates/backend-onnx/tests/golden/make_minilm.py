"""Makes `minilm.json`, tokens of a few sentences, and `minilm.f32`, their embeddings, each alone.

    scripts/fetch-minilm
    pip install onnxruntime==1.31.1 numpy tokenizers
    python crates/backend-onnx/tests/golden/make_minilm.py
"""

import json
import pathlib

import numpy
import onnxruntime
import tokenizers

HERE = pathlib.Path(__file__).parent
CACHE = HERE.parents[3] / ".cache/minilm"
SENTENCES = [
    "bread",
    "A loaf of bread is baked in the oven.",
    "Fresh rolls come out of the bakery at six in the morning, and by seven they are gone.",
    "The peloton rides in one line because the line is faster than any of its riders; each pulls "
    "at the front for a while, then drifts back, and so they cross the plain against the wind.",
    "Zürich, 東京",
]


def main() -> None:
    tokenizer = tokenizers.Tokenizer.from_file(str(CACHE / "tokenizer.json"))
    tokenizer.no_padding()
    options = onnxruntime.SessionOptions()
    # As the graph is written. Further rewriting rounds activations to 8 bits.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    session = onnxruntime.InferenceSession(CACHE / "model.onnx", options)
    tokens, embeddings = [], []
    for sentence in SENTENCES:
        ids = tokenizer.encode(sentence).ids
        row = numpy.array([ids], numpy.int64)
        inputs = {
            "input_ids": row,
            "attention_mask": numpy.ones_like(row),
            "token_type_ids": numpy.zeros_like(row),
        }
        tokens.append({"text": sentence, "ids": ids})
        embeddings += session.run(None, inputs)
    (HERE / "minilm.json").write_text(json.dumps(tokens, ensure_ascii=False) + "\n")
    numpy.concatenate(embeddings).astype("<f4").tofile(HERE / "minilm.f32")


if __name__ == "__main__":
    main()
