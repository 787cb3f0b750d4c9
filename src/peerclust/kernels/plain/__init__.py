"""What kernels compute, in numpy: the same bits as the compiled loops, and no numba.

Every operation on a number is the one of the loop, in the same order: sums over features run from
the first to the last, and `bincount` adds in the order of its input. Only the double-double sums of
rows are computed in another way; see `exact_sums`. A NaN may have another sign. Floating-point
warnings are the caller's to silence, as `Kernel` does.
"""
