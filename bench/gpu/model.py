"""The vocoder as a Paceline model."""

from paceline import Model, TensorSpec
from vocoder import DEVICE, FRAMES, MELS, SAMPLES, Speaker


class Vocode(Model):
    inputs = {"mel": TensorSpec("FP32", [MELS, FRAMES])}
    outputs = {"audio": TensorSpec("INT16", [SAMPLES])}

    def load(self):
        self.speaker = Speaker()

    def infer(self, batch):
        return {"audio": self.speaker.speak(batch.torch("mel", DEVICE))}
