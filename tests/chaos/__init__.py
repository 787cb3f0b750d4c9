"""Fault injection: random faults for real peer processes, and mutated frames for the decoder.

    python -m tests.chaos schedules --count 200 --seed 0
    python -m tests.chaos fuzz --frames 10000000 --seed 0

Both run from the root of the repository. Modules here import each other relatively, as the package
is `tests.chaos` there and `chaos` under pytest.
"""
