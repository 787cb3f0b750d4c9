"""What all tests share. Helpers are found by `pythonpath` in pyproject.toml."""
