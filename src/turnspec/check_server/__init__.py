"""Checking any environment server against the wire, as a client meets it. `check` is the way in."""

from __future__ import annotations

from turnspec.check_server.exchange import Unusable
from turnspec.check_server.findings import Finding
from turnspec.check_server.walk import Checked, check

__all__ = ["Checked", "Finding", "Unusable", "check"]
