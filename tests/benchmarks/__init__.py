"""Speed and memory, as ratios of two runs on one machine. `python -m tests.benchmarks` prints the table."""
