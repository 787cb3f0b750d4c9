"""Being here puts tests/ on the path, so that every test may say `from instances import ...`."""
