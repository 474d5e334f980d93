"""One module for each command: `run(args)` does the work and returns the exit code."""
