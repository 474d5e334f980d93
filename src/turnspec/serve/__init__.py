"""Serving files of tasks as an environment: an index of where each task lies, and a record of the answers."""
