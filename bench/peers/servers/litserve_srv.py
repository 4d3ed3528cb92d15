"""LitServe."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import litserve as ls
import curve


class API(ls.LitAPI):
    def setup(self, device):
        pass

    def decode_request(self, request):
        return request["input"]

    def batch(self, inputs):
        return inputs

    def predict(self, xs):
        if curve.MODEL != "echo":
            curve.sim(len(xs))
        return [len(x) for x in xs]

    def unbatch(self, out):
        return out

    def encode_response(self, out):
        return {"length": out}


if __name__ == "__main__":
    api = API(max_batch_size=curve.MAXB, batch_timeout=curve.WAIT_MS / 1000.0)
    kw = {}
    server = ls.LitServer(
        api,
        accelerator="cpu",
        devices=1,
        workers_per_device=1,
        timeout=60,
        fast_queue=os.environ.get("FASTQ", "1") == "1",
        track_requests=False,
    )
    server.run(
        host="127.0.0.1",
        port=curve.PORT,
        generate_client_file=False,
        log_level="warning",
        num_api_servers=int(os.environ.get("NAPI", "1")),
        access_log=False,
    )
