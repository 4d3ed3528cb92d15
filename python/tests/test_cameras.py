"""The producer of camera frames, against what the server expects."""

import os
import struct
import tempfile
import unittest

from paceline.cameras import Producer, Ring, shard_of


class Client:
    """Takes notes instead of frames."""

    def __init__(self):
        self.added = []

    def xadd(self, key, fields):
        self.added.append((key, fields))
        return b"1-0"


class Cameras(unittest.TestCase):
    def test_a_camera_is_in_the_shard_where_the_server_looks(self):
        places = [shard_of(camera) for camera in ("cam-0", "cam-1", "door", "Straße 7")]

        self.assertEqual(places, ["s014", "s037", "s058", "s007"])

    def test_a_frame_has_the_fields_that_the_server_reads(self):
        client = Client()
        producer = Producer(client)
        producer.add("cam-0", b"xyz", number=7, taken_ms=5, dtype="UINT8", shape=(1, 3))
        producer.add("cam-0", b"jpg", format="jpeg", taken_ms=6)
        own = Producer(client, camera_key="x:<shard>:<camera>")
        own.add("cam-0", b"png", format="png", taken_ms=7)

        raw = {"k": "7 5 cam-0", "y": "UINT8", "s": "1,3", "d": b"xyz"}
        self.assertEqual(client.added[0], ("paceline:{s014}:frames", raw))
        self.assertEqual(client.added[1][1], {"k": "- 6 cam-0", "f": "jpeg", "d": b"jpg"})
        self.assertEqual(client.added[2][0], "x:{s014}:cam-0")

    def test_what_makes_no_frame_is_refused(self):
        producer = Producer(Client())
        for camera, format in (("", "raw"), ("x" * 129, "raw"), ("a", "gif")):
            with self.assertRaises(ValueError):
                producer.add(camera, b"", format=format)
        with self.assertRaises(ValueError):
            Ring("a/b", slot_bytes=1, slots=1)

    def test_a_ring_is_laid_out_as_the_server_reads_it(self):
        with tempfile.TemporaryDirectory() as folder:
            client = Client()
            ring = Ring("door", slot_bytes=100, slots=2, folder=folder)
            producer = Producer(client, ring=ring)
            for number in range(3):
                producer.add("door", bytes([number]) * 50, number=number)

            handles = [fields["h"] for _, fields in client.added]
            self.assertEqual([h.split(":")[1:] for h in handles],
                             [["0", "1", "50"], ["1", "1", "50"], ["0", "2", "50"]])
            with open(os.path.join(folder, "paceline-ring-" + ring.name), "rb") as file:
                data = file.read()
            self.assertEqual(data[:24], b"PLRING01" + struct.pack("<QQ", 100, 2))
            self.assertEqual(data[4096:4104], struct.pack("<Q", 4), "written twice")
            self.assertEqual(data[4104:4154], bytes([2]) * 50)
            self.assertEqual(data[4096 + 128:4096 + 136], struct.pack("<Q", 2))
            with self.assertRaises(ValueError):
                ring.write(bytes(101))
            ring.remove()
            self.assertEqual(os.listdir(folder), [])


if __name__ == "__main__":
    unittest.main()
