"""How the server runs code of an environment: nothing of it may block the loop, hang it or end the process."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

THREADS = 64
_pool = ThreadPoolExecutor(THREADS, thread_name_prefix="turnspec-environment")


async def run(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Call a function, coroutine functions on the loop and others in a thread; await what it gives."""
    try:
        if inspect.iscoroutinefunction(function):
            return await function(*args, **options)
        call = functools.partial(contextvars.copy_context().run, _guarded, function, *args, **options)
        result = await asyncio.get_running_loop().run_in_executor(_pool, call)
        return await result if inspect.isawaitable(result) else result
    except SystemExit as problem:  # would end the server
        raise RuntimeError(f"the environment asked the process to exit ({problem})") from problem


def _guarded(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    try:
        return function(*args, **options)
    except StopIteration as problem:  # no future can hold one: whoever waits would wait for ever
        raise RuntimeError("StopIteration") from problem
