"""`cluster` and its parts, from the checked problem to the solution."""
