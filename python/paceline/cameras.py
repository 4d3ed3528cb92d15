"""Adds camera frames to the Redis streams that Paceline reads. Nothing but redis-py is needed, and that
only as the client which is passed in.

    import redis
    from paceline.cameras import Producer, Ring

    producer = Producer(redis.Redis())
    producer.add("door", jpeg_bytes, format="jpeg", number=1)

    ring = Ring("door", slot_bytes=1 << 20, slots=64)      # frames in shared memory: for a server on
    producer = Producer(redis.Redis(), ring=ring)          # this machine; Redis carries handles
    producer.add("door", raw_bytes, number=2)

To send many frames in one go, pass a pipeline and execute it yourself.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import struct
import time
from functools import lru_cache

__all__ = ["Producer", "Ring", "shard_of"]

_MASK = (1 << 64) - 1
_PREFIX = "paceline-ring-"
_MAGIC = b"PLRING01"
_SLOTS_AT = 4096
_KEPT_FOR = 60.0


def _rotate(value: int, by: int) -> int:
    return (value << by | value >> (64 - by)) & _MASK


def _siphash13(data: bytes) -> int:
    """SipHash-1-3 with a key of zeros."""
    v0, v1, v2, v3 = 0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573

    def step() -> None:
        nonlocal v0, v1, v2, v3
        v0 = (v0 + v1) & _MASK
        v1 = _rotate(v1, 13) ^ v0
        v0 = _rotate(v0, 32)
        v2 = (v2 + v3) & _MASK
        v3 = _rotate(v3, 16) ^ v2
        v0 = (v0 + v3) & _MASK
        v3 = _rotate(v3, 21) ^ v0
        v2 = (v2 + v1) & _MASK
        v1 = _rotate(v1, 17) ^ v2
        v2 = _rotate(v2, 32)

    whole = len(data) // 8 * 8
    last = data[whole:] + bytes(7 - len(data) % 8) + bytes([len(data) % 256])
    for (word,) in struct.iter_unpack("<Q", data[:whole] + last):
        v3 ^= word
        step()
        v0 ^= word
    v2 ^= 0xFF
    for _ in range(3):
        step()
    return v0 ^ v1 ^ v2 ^ v3


@lru_cache(maxsize=100_000)
def shard_of(camera: str, shards: int = 64) -> str:
    """The shard that a camera belongs to, such as ``s014``."""
    return f"s{_siphash13(camera.encode()) % shards:03d}"


class Producer:
    """Adds frames. ``client`` is a ``redis.Redis``, a cluster client or a pipeline.

    ``camera_key`` is for servers with ``layout = "camera"``, for example ``"cam:<camera>"``.
    """

    def __init__(
        self,
        client,
        *,
        prefix: str = "paceline",
        shards: int = 64,
        camera_key: str | None = None,
        ring: Ring | None = None,
    ) -> None:
        self._client = client
        self._prefix = prefix
        self._shards = shards
        self._camera_key = camera_key
        self._ring = ring

    def key(self, camera: str) -> str:
        """The stream of a camera's frames."""
        shard = shard_of(camera, self._shards)
        if self._camera_key is None:
            return f"{self._prefix}:{{{shard}}}:frames"
        return self._camera_key.replace("<shard>", f"{{{shard}}}").replace("<camera>", camera)

    def add(
        self,
        camera: str,
        data: bytes,
        *,
        format: str = "raw",
        number: int | None = None,
        taken_ms: int | None = None,
        dtype: str | None = None,
        shape: tuple[int, ...] | None = None,
    ):
        """Adds a frame and gives what the client gives: its id, or the pipeline.

        ``format`` is raw, jpeg or png; ``dtype`` and ``shape`` are for raw frames and may be left out
        where the model says what it takes. ``number`` comes back with the result.
        """
        if format not in ("raw", "jpeg", "png"):
            raise ValueError(f"format is {format!r}; it must be raw, jpeg or png")
        if not 1 <= len(camera.encode()) <= 128:
            raise ValueError("a camera's name has 1 to 128 bytes")
        taken = time.time_ns() // 1_000_000 if taken_ms is None else taken_ms
        fields: dict[str, object] = {"k": f"{'-' if number is None else number} {taken} {camera}"}
        if format != "raw":
            fields["f"] = format
        if dtype is not None:
            fields["y"] = dtype
        if shape is not None:
            fields["s"] = ",".join(str(extent) for extent in shape)
        if self._ring is None:
            fields["d"] = data
        else:
            fields["h"] = self._ring.write(data)
        return self._client.xadd(self.key(camera), fields)


class Ring:
    """A ring of frames in shared memory. The oldest frame is written over by the next, so there must be
    as many slots as frames may wait at once. It stays for a minute after its producer is gone."""

    def __init__(
        self, name: str, *, slot_bytes: int, slots: int, folder: str = "/dev/shm"
    ) -> None:
        if slot_bytes < 1 or slots < 1:
            raise ValueError("a ring needs at least one slot, and a slot at least one byte")
        plain = name.isascii() and name.replace("-", "").replace("_", "").isalnum()
        if not plain or len(name) > 55:
            raise ValueError("a ring's name has 1 to 55 letters, digits, - and _")
        _sweep(folder)
        self.name = f"{name}-{secrets.token_hex(4)}"
        self._slot_bytes, self._slots, self._written = slot_bytes, slots, 0
        self._stride = (8 + slot_bytes + 63) // 64 * 64
        self._path = os.path.join(folder, _PREFIX + self.name)
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        # Held for as long as this process lives; that is how others know that it does.
        fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(self._file, _SLOTS_AT + slots * self._stride)
        os.pwrite(self._file, _MAGIC + struct.pack("<QQ", slot_bytes, slots), 0)

    def write(self, frame: bytes) -> str:
        """Writes a frame over the oldest and gives its handle."""
        if len(frame) > self._slot_bytes:
            raise ValueError(f"the frame has {len(frame)} bytes, and a slot {self._slot_bytes}")
        slot, generation = self._written % self._slots, self._written // self._slots + 1
        at = _SLOTS_AT + slot * self._stride
        os.pwrite(self._file, struct.pack("<Q", 2 * generation + 1), at)
        rest, to = memoryview(frame), at + 8
        while rest:
            n = os.pwrite(self._file, rest, to)
            rest, to = rest[n:], to + n
        os.pwrite(self._file, struct.pack("<Q", 2 * generation), at)
        self._written += 1
        return f"{self.name}:{slot}:{generation}:{len(frame)}"

    def remove(self) -> None:
        """Removes it with all frames that were not read yet."""
        os.unlink(self._path)
        os.close(self._file)


def _sweep(folder: str) -> None:
    """Removes rings whose producers are gone."""
    for entry in os.scandir(folder):
        if not entry.name.startswith(_PREFIX):
            continue
        try:
            file = os.open(entry.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            if time.time() - os.fstat(file).st_mtime >= _KEPT_FOR:
                os.unlink(entry.path)
        except OSError:
            pass  # Its producer lives, or somebody else removed it.
        finally:
            os.close(file)
