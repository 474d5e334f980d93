"""Serve the environments with the SDK that `INTEROP_SDK` names, on a free port, which is printed."""

from __future__ import annotations

import os
import socket

import uvicorn
from environments import ENVIRONMENTS, sdk

listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # asyncio sets TCP_NODELAY only then
listener.bind(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # nobody reads what the server logs
uvicorn.Server(uvicorn.Config(sdk.Server(ENVIRONMENTS).app, log_level="warning", timeout_graceful_shutdown=1)).run(
    sockets=[listener]
)
