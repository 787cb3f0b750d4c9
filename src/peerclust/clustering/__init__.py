"""`cluster` and what it is made of, from the checked problem to the solution."""
