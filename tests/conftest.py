"""What every test process starts from."""

from __future__ import annotations

import signal

# A shell that runs the tests in the background has its children ignore SIGINT; the commands that the tests
# start and interrupt would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
