"""How results are shown: pictures (only here is matplotlib used), the terminal, and files."""
