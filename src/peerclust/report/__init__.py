"""How results are shown: pictures (matplotlib lives only here) and what a terminal prints."""
