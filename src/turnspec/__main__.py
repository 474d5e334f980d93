"""`python -m turnspec` is the `turnspec` command."""

from __future__ import annotations

import sys

from turnspec.cli import main

if __name__ == "__main__":
    sys.exit(main())
