"""Makes the pictures beside it and what two others find in them.

    pip install mediapipe==0.10.14 scikit-image==0.26.0 onnxruntime==1.31.1 pillow
    python crates/pipeline/tests/adapt/blazeface/make.py

`mediapipe.json` is from MediaPipe: the TFLite model, its own scaling, anchors and suppression. It
scales by picking four pixels for each, where the adapter averages all, so the two are close only to
about a pixel of the model's. `numpy.json` is from the few lines below, which average as Pillow does.
"""

import importlib.resources
import json
import pathlib

import mediapipe
import numpy
import onnxruntime
from PIL import Image

HERE = pathlib.Path(__file__).parent


def pictures(astronaut: Image.Image):
    """One face: upright, at the edge of a wide picture, in a tall one; two faces; none."""
    face = astronaut.crop((140, 0, 320, 260))
    wide = Image.new("RGB", (480, 220), (60, 90, 60))
    wide.paste(astronaut.crop((60, 0, 400, 220)), (140, 0))
    tall = Image.new("RGB", (200, 520), (90, 60, 60))
    tall.paste(face, (10, 250))
    two = Image.new("RGB", (420, 280), (128, 128, 128))
    two.paste(face, (10, 10))
    two.paste(face.transpose(Image.Transpose.FLIP_LEFT_RIGHT), (230, 15))
    none = astronaut.crop((300, 260, 512, 512))
    square = astronaut.resize((256, 256))
    return {"square": square, "wide": wide, "tall": tall, "two": two, "none": none}


def face(box, score, keypoints):
    return {
        "box": [float(number) for number in box],
        "score": float(score),
        "keypoints": [[float(x), float(y)] for x, y in keypoints],
    }


def by_mediapipe(detector, picture):
    width, height = picture.size
    faces = []
    for detection in detector.process(numpy.asarray(picture)).detections or []:
        location = detection.location_data
        box = location.relative_bounding_box
        x, y = box.xmin * width, box.ymin * height
        corners = [x, y, x + box.width * width, y + box.height * height]
        points = [(point.x * width, point.y * height) for point in location.relative_keypoints]
        faces.append(face(corners, detection.score[0], points))
    return {"width": width, "height": height, "faces": faces}


def by_numpy(session, picture):
    width, height = picture.size
    scale = 128 / max(width, height)
    inner = round(width * scale), round(height * scale)
    left, top = (128 - inner[0]) // 2, (128 - inner[1]) // 2
    square = numpy.zeros((128, 128, 3), numpy.float32)
    scaled = picture.resize(inner, Image.Resampling.BILINEAR)
    square[top : top + inner[1], left : left + inner[0]] = numpy.asarray(scaled)
    tensor = (square / 127.5 - 1).transpose(2, 0, 1)[None]
    boxes, logits = (output[0] for output in session.run(None, {"input": tensor}))

    def grid(n, times):
        y, x = numpy.mgrid[:n, :n]
        return numpy.stack([x.ravel(), y.ravel()], 1).repeat(times, 0) / n + 0.5 / n

    centres = numpy.concatenate([grid(16, 2), grid(8, 6)]) * 128
    scores = 1 / (1 + numpy.exp(-numpy.clip(logits[:, 0], -100, 100)))
    points = boxes.reshape(896, 8, 2).astype(float)
    half = points[:, 1] / 2
    points[:, 0], points[:, 1] = points[:, 0] - half, points[:, 0] + half
    points += centres[:, None]
    points = (points - [left, top]) * [width / inner[0], height / inner[1]]

    faces = []
    rest = [index for index in numpy.argsort(-scores) if scores[index] >= 0.5]
    while rest:
        low = numpy.maximum(points[rest, 0], points[rest[0], 0])
        high = numpy.minimum(points[rest, 1], points[rest[0], 1])
        shared = numpy.prod(numpy.clip(high - low, 0, None), 1)
        areas = numpy.prod(points[rest, 1] - points[rest, 0], 1)
        same = shared / (areas + areas[0] - shared) > 0.3
        group = numpy.array(rest)[same]
        mean = numpy.average(points[group], axis=0, weights=scores[group])
        corners = numpy.clip(mean[:2], 0, [width, height]).ravel()
        faces.append(face(corners, scores[rest[0]], mean[2:]))
        rest = [index for index, is_same in zip(rest, same) if not is_same]
    return {"width": width, "height": height, "faces": faces}


def main() -> None:
    source = importlib.resources.files("skimage") / "data/astronaut.png"
    with source.open("rb") as file:
        astronaut = Image.open(file).convert("RGB")
    detector = mediapipe.solutions.face_detection.FaceDetection(
        model_selection=0, min_detection_confidence=0.5
    )
    session = onnxruntime.InferenceSession(HERE.parents[4] / "models/blazeface/1/model.onnx")
    answers = {"mediapipe": {}, "numpy": {}}
    for name, picture in pictures(astronaut).items():
        path = HERE / f"{name}.jpg"
        picture.save(path, quality=85)
        picture = Image.open(path).convert("RGB")
        answers["mediapipe"][name] = by_mediapipe(detector, picture)
        answers["numpy"][name] = by_numpy(session, picture)
    for name, answer in answers.items():
        (HERE / f"{name}.json").write_text(json.dumps(answer, indent=1) + "\n")


if __name__ == "__main__":
    main()
