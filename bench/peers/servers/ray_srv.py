"""Ray Serve, on a Ray of its own that listens on loopback."""

import os
import signal
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
os.environ["PYTHONPATH"] = HERE + ":" + os.environ.get("PYTHONPATH", "")
import asyncio
import json
import ray
from ray import serve
from starlette.requests import Request
from starlette.responses import Response
import curve


@serve.deployment(
    num_replicas=1,
    max_ongoing_requests=1024,
    ray_actor_options={"num_cpus": 0.1},
    logging_config={"enable_access_log": False, "log_level": "WARNING"},
)
class M:
    @serve.batch(max_batch_size=curve.MAXB, batch_wait_timeout_s=curve.WAIT_MS / 1000.0)
    async def infer(self, xs):
        if curve.MODEL != "echo":
            await asyncio.get_running_loop().run_in_executor(None, curve.sim, len(xs))
        return [len(x) for x in xs]

    async def __call__(self, request: Request):
        d = json.loads(await request.body())
        return Response(
            b'{"length":%d}' % await self.infer(d["input"]), media_type="application/json"
        )


if __name__ == "__main__":
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=200 * 1024 * 1024,
        log_to_driver=False,
        _node_ip_address="127.0.0.1",
        _temp_dir=os.environ["PEERS_HOME"] + "/raytmp",
        runtime_env={
            "env_vars": {
                k: os.environ[k]
                for k in ("MODEL", "WAIT_MS", "MAXB", "BATCHLOG", "PYTHONPATH")
                if k in os.environ
            }
        },
    )
    serve.start(
        http_options={"host": "127.0.0.1", "port": curve.PORT},
        logging_config={"enable_access_log": False, "log_level": "WARNING"},
    )
    serve.run(M.bind(), route_prefix="/", blocking=False)
    print("READY", flush=True)
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    serve.shutdown()
    ray.shutdown()
