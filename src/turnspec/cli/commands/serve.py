"""`turnspec serve`: files of tasks as an environment over HTTP."""

from __future__ import annotations

import socket
import sys
from typing import Any

from turnspec.cli import FINDINGS, OK
from turnspec.cli.choices import key_of
from turnspec.cli.extras import needs, token_of
from turnspec.cli.failures import CommandError, reason
from turnspec.cli.sources import Source, find_sources
from turnspec.cli.text import colour_wanted, printable, say

PATIENCE = 3  # seconds that running requests get at the end


def run(args: Any) -> int:
    """Serve until Ctrl-C or SIGTERM."""
    needs("server", "starlette", "uvicorn", "pydantic")
    key, token = key_of(args.key), token_of(args.token_env)
    if args.split is not None and not args.split:
        raise CommandError("--split: the name of a split is not empty")
    sources = find_sources(args.files, None)
    listener = _listen(args.host, args.port)
    try:
        return _serve(args, sources, key, token, listener)
    finally:
        listener.close()


def _serve(args: Any, sources: Any, key: tuple[str, ...], token: str | None, listener: socket.socket) -> int:
    from turnspec.cli.report import Style
    from turnspec.serve.loading import Refused, load
    from turnspec.serve.recording import Recorder

    recorder = None if args.record is None else Recorder(args.record)
    try:
        for source in sources:
            if recorder is not None and isinstance(source, Source) and recorder.same_as(source.path):
                raise CommandError(f"--record: {recorder.name} is a file that is served")
        style = Style(False, colour_wanted("auto", sys.stderr))
        try:
            dataset = load(sources, args.split, key, skip_invalid=args.skip_invalid, style=style)
        except Refused as refusal:
            say(f"turnspec: {refusal}")
            return FINDINGS
        try:
            if not len(dataset):
                say("turnspec: nothing is served: the files hold no valid task")
                return FINDINGS
            left_out = f" ({dataset.left_out} invalid left out)" if dataset.left_out else ""
            if token is None and not _is_local(listener):
                say("turnspec: anyone who reaches this machine can read the tasks: --token-env asks for a token")
            _answer(dataset, key, recorder, token, listener, f"serving {dataset} at {_url(listener)}{left_out}")
        finally:
            dataset.close()
    finally:
        if recorder is not None:
            recorder.close()
    return OK


def _answer(dataset: Any, key: Any, recorder: Any, token: str | None, listener: socket.socket, ready: str) -> None:
    """Answer requests until a signal comes; `ready` is said when the first one can."""
    import uvicorn

    from turnspec.environment import Server
    from turnspec.serve.served import TellingSession, environment_of

    class Announcing(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started:
                say(ready)

    _log_in_lines()
    server = Server([environment_of(dataset, key, recorder)], api_token=token)
    config = uvicorn.Config(
        TellingSession(server),
        log_config=None,
        access_log=False,
        timeout_keep_alive=60,
        timeout_graceful_shutdown=PATIENCE,
        server_header=False,
        ws="none",
    )
    Announcing(config).run(sockets=[listener])


def _log_in_lines() -> None:
    """What the server logs goes to stderr as lines of this command; TURNSPEC_DEBUG=1 shows where errors come from."""
    import logging
    import os

    whole = bool(os.environ.get("TURNSPEC_DEBUG"))

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said = record.getMessage()
            say(f"turnspec: {said if whole else printable(_without_traceback(said))}")
            if record.exc_info and whole:
                say(logging.Formatter().formatException(record.exc_info))

    handler = Lines(logging.WARNING)
    for name in ("turnspec", "uvicorn", "asyncio"):
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        logger.setLevel(logging.WARNING)
        logger.propagate = False


def _without_traceback(text: str) -> str:
    """A text that may hold a traceback, of which only the last line is kept."""
    before, found, traceback = text.partition("Traceback (most recent call last):")
    return before + traceback.rstrip().rpartition("\n")[2] if found else text


def _listen(host: str, port: int) -> socket.socket:
    """A socket that has the address. CommandError: somebody else has it, or there is no such address."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        raise CommandError(f"--host: {printable(host)!r} is no address of this machine") from None
    family, kind, protocol, _, address = found[0]
    listener = socket.socket(family, kind, protocol)
    try:
        if sys.platform != "win32":  # there it would let two servers share the port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(2048)
    except OSError as error:
        listener.close()
        import errno

        if error.errno == errno.EADDRINUSE:
            why = "another program listens there; name another port, or --port 0 for any free one"
            raise CommandError(f"cannot listen at {printable(host)}:{port}: {why}") from None
        raise CommandError(f"cannot listen at {printable(host)}:{port}: {reason(error)}") from None
    return listener


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _is_local(listener: socket.socket) -> bool:
    import ipaddress

    return ipaddress.ip_address(listener.getsockname()[0]).is_loopback
