"""A device plugin whose devices are numbers: the kubelet counts and assigns them, and no program can compute on them.

`python -m sandbox.containerd.device_plugin RESOURCE COUNT`, in the kubelet's folder `device-plugins`.
https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc

from sandbox.containerd.device_api import (
    API_VERSION,
    AllocateRequest,
    AllocateResponse,
    Empty,
    ListAndWatchResponse,
    Options,
    RegisterRequest,
)

KUBELET = Path("kubelet.sock")
"""The kubelet's socket; sockets are named without their folder, since a socket's path may only have 107 bytes."""
POLL_S = 0.2
ANSWER_S = 5.0
HEALTHY = "Healthy"
NOTHING_VISIBLE = {"NVIDIA_VISIBLE_DEVICES": "void"}
"""What NVIDIA's container runtime takes for no device at all: true of what is assigned here."""


class CountedDevices:
    """The service that the kubelet asks."""

    def __init__(self, count: int) -> None:
        self._ids = [f"counted-{number}" for number in range(count)]
        self.over = threading.Event()

    def options(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Want nothing special."""
        return Options()

    def list_and_watch(self, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        """Give all devices, which never change; when this ends the kubelet takes them for gone."""
        yield ListAndWatchResponse(devices=[{"ID": each, "health": HEALTHY} for each in self._ids])
        while context.is_active() and not self.over.wait(POLL_S):
            pass

    def allocate(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Give containers their devices, of which there is nothing to see."""
        return AllocateResponse(container_responses=[{"envs": NOTHING_VISIBLE} for _ in request.container_requests])

    def handler(self) -> grpc.GenericRpcHandler:
        """Give the service as gRPC wants it."""
        methods = {
            "GetDevicePluginOptions": grpc.unary_unary_rpc_method_handler(self.options, Empty.FromString, _bytes),
            "ListAndWatch": grpc.unary_stream_rpc_method_handler(self.list_and_watch, Empty.FromString, _bytes),
            "Allocate": grpc.unary_unary_rpc_method_handler(self.allocate, AllocateRequest.FromString, _bytes),
        }
        return grpc.method_handlers_generic_handler(f"{API_VERSION}.DevicePlugin", methods)


def serve(resource: str, count: int, over: threading.Event) -> None:
    """Serve one kubelet after another until it is over: each that starts removes the sockets of its plugins."""
    own = Path(f"{resource.replace('/', '-')}.sock")
    while not over.is_set():
        devices = CountedDevices(count)
        own.unlink(missing_ok=True)
        server = grpc.server(ThreadPoolExecutor(4))
        server.add_generic_rpc_handlers([devices.handler()])
        server.add_insecure_port(f"unix:{own}")
        server.start()
        registered = False
        while not over.is_set() and own.exists():
            registered = registered or _register(resource, own)
            over.wait(POLL_S)
        devices.over.set()
        server.stop(POLL_S).wait()
    own.unlink(missing_ok=True)


def _register(resource: str, own: Path) -> bool:
    if not KUBELET.exists():
        return False
    with grpc.insecure_channel(f"unix:{KUBELET}") as channel, suppress(grpc.RpcError):
        register = channel.unary_unary(f"/{API_VERSION}.Registration/Register", _bytes, Empty.FromString)
        request = RegisterRequest(version=API_VERSION, endpoint=own.name, resource_name=resource)
        register(request, timeout=ANSWER_S)
        print(f"{resource} is registered", flush=True)
        return True
    return False


def _bytes(message: Any) -> bytes:
    return bytes(message.SerializeToString())


def main() -> None:
    """Serve until SIGTERM."""
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    serve(sys.argv[1], int(sys.argv[2]), over)


if __name__ == "__main__":
    main()
