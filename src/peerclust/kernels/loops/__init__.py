"""The compiled loops. Importing any of these modules imports numba; `kernels.Kernel` does, late.

A loop whose result decides a label must not reorder or fuse floating-point operations (numba's
`fastmath` stays off): a squared distance is the plain sum over features, first to last, wherever
it is computed. Bounds carry a margin for rounding and may be summed in any order.

Compiling takes about 0.02 s for each statement and 0.05 s for each loop, after inlining, and more
than 0.1 s for each array that is allocated. So loops are given their scratch arrays, what is used
in several of them is a function of its own rather than inlined, and what few problems need is
left out where an argument is None.
"""
