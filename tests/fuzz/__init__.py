"""Mutants of valid documents, and the judges that must agree on each of them."""
