"""Makes `files/` and what Magika itself says of each, `expected.json`.

    pip install magika==1.0.3 onnxruntime==1.31.1
    python crates/pipeline/tests/adapt/magika/make.py

The files are chosen for the rules around the model: empty, short, blank, cut at the window, sure,
unsure, and labels that are overwritten.
"""

import gzip
import io
import json
import pathlib
import random
import struct
import zipfile
import zlib

from magika import Magika

HERE = pathlib.Path(__file__).parent
RANDOM = random.Random(1)

PYTHON = b'''"""A module."""
import os
from dataclasses import dataclass


@dataclass
class Rider:
    name: str
    watts: int = 250

    def pulls(self) -> bool:
        return self.watts > int(os.environ.get("WATTS", "200"))


if __name__ == "__main__":
    print(Rider("Ada").pulls())
'''

RUST = b"""//! A rider.
use std::fmt;

#[derive(Debug, Clone)]
pub struct Rider { name: String, watts: u32 }

impl fmt::Display for Rider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {} W", self.name, self.watts)
    }
}

fn main() { println!("{}", Rider { name: "Ada".into(), watts: 250 }); }
"""

HTML = b"""<!DOCTYPE html>
<html lang="en"><head><title>Riders</title><meta charset="utf-8"></head>
<body><h1>Riders</h1><ul><li>Ada</li><li>Grace</li></ul></body></html>
"""

PROSE = b"The line is faster than any of its riders. Each pulls for a while, then drifts back. "


def png() -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + bytes((x * y) % 256 for x in range(24)) for y in range(8))
    header = struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def archive() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as out:
        out.writestr(zipfile.ZipInfo("riders.txt"), PROSE * 4)
    return buffer.getvalue()


def letters(n: int) -> bytes:
    return bytes(RANDOM.choice(b"abcdefghijklmnopqrstuvwxyz0123456789") for _ in range(n))


FILES = {
    "empty": b"",
    "two_letters": b"hi",
    "seven_bytes_no_text": b"\xff\xfe\x00\x01\x02\x03\xff",
    "blank": b" \n\t\r\x0b\x0c" * 40,
    "blank_then_few": b"\x0b" * 300 + b"few",
    "blank_for_a_block": b" " * 4096 + PYTHON,
    "blank_then_no_text": b" " * 20 + b"\xff\xfe\xfd",
    "eight_bytes": b"a = 1+2\n",
    "python": PYTHON,
    "python_between_blanks": b"\n" * 700 + PYTHON + b" \x0b" * 900,
    "rust": RUST,
    "html": HTML,
    "json": json.dumps({"riders": [{"name": "Ada", "watts": w} for w in range(40)]}).encode(),
    "csv": b"name,watts,laps\n" + b"".join(b"rider%d,%d,%d\n" % (i, 200 + i, i * 3) for i in range(60)),
    "markdown": b"# Riders\n\nA *line* of riders:\n\n- Ada\n- Grace\n\n```sh\nride --watts 250\n```\n",
    "prose": PROSE * 60,
    "one_sentence": b"ride on, and on",
    "shell": b"#!/bin/sh\nset -eu\nfor rider in ada grace; do\n  echo \"$rider\"\ndone\n",
    "ini": b"[rider]\nname = Ada\nwatts = 250\n",
    "gzip": gzip.compress(PROSE * 9, mtime=0),
    "zip": archive(),
    "png": png(),
    "pdf": b"%PDF-1.4\n1 0 obj << /Type /Catalog /Pages 2 0 R >> endobj\n2 0 obj << /Type /Pages /Kids [] /Count 0 >> endobj\ntrailer << /Root 1 0 R >>\n%%EOF\n",
    "random_bytes": RANDOM.randbytes(6000),
    "random_letters": letters(6000),
    "zeros": bytes(100),
    "sql_like": b"select the best rider from the line where it hurts\n",
    "nearly_pascal": b"begin\n ride;\nend.",
    "nearly_tsv": b"name\twatts\nAda\t250\n",
    "nearly_rst": b"Riders\n======\n\nride on",
    "long_python": b"# rider\n" * 300 + PYTHON * 9,
}


def main() -> None:
    files = HERE / "files"
    files.mkdir(exist_ok=True)
    magika = Magika()
    expected = {}
    for name, content in FILES.items():
        (files / name).write_bytes(content)
        prediction = magika.identify_bytes(content).prediction
        expected[name] = {
            "label": str(prediction.output.label),
            "score": prediction.score,
            "mime_type": prediction.output.mime_type,
            "group": prediction.output.group,
            "description": prediction.output.description,
            "is_text": prediction.output.is_text,
            "model_label": str(prediction.dl.label),
            "overwrite_reason": str(prediction.overwrite_reason),
        }
    (HERE / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main()
