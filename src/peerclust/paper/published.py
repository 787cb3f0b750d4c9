"""The numbers of the paper's tables, as printed: mean and standard deviation.

A. Armacki, D. Bajovic, D. Jakovetic and S. Kar, "A unified framework for center-based clustering
of distributed data". Accuracies are in percent.
"""

from __future__ import annotations

from collections.abc import Mapping

from peerclust.paper.experiment import Stat

Table = Mapping[str, Mapping[str, Stat]]


def _read(text: str) -> Stat:
    """Read "90.6 0.5" as a mean and a deviation, "0.33" as a mean alone."""
    mean, *std = text.split()
    return Stat(float(mean), float(std[0]) if std else None, " ± ".join([mean, *std]))


def _table(columns: str, **lines: str) -> Table:
    """Read a table: columns are separated by spaces, cells by commas."""
    return {
        name.replace("_", "-"): dict(
            zip(columns.split(), map(_read, cells.split(",")), strict=True)
        )
        for name, cells in lines.items()
    }


# Table 1: the maximum center distance after 500 rounds, by rho.
MAXIMUM_DISTANCE = _table(
    "1 10 100 1000",
    DGC_KM="1.16, 0.33, 0.047, 0.005",
    DGC_HL="1.17, 0.31, 0.048, 0.005",
    DGC_LL="1.23, 0.43, 0.061, 0.008",
    DGC_FL="1.64, 0.44, 0.077, 0.010",
)

# Table 2: accuracy on Iris, by start.
STARTS = _table(
    "warm random",
    SKL_KM="89.3 0.0, 81.7 14.5",
    CGC_KM="89.1 0.3, 81.6 14.8",
    LGC_KM="89.3 2.9, 82.5 3.2",
    DGC_KM="90.6 0.5, 90.5 3.6",
    DGC_HL="90.6 0.5, 89.3 6.1",
    DGC_LL="90.7 0.2, 86.7 5.5",
    ADMM_KM="88.7 0.2, 88.6 0.0",
)

# Table 3: accuracy on homogeneous data.
HOMOGENEOUS = _table(
    "SKL-KM CGC-KM LGC-KM DGC-KM DGC-HL DGC-LL ADMM-KM",
    mnist7="73.7 0.2, 73.6 0.5, 62.9 3.1, 73.3 1.1, 74.4 1.3, 70.9 1.6, 73.9 0.2",
    cifar3="50.6 0.4, 50.1 0.4, 41.4 4.4, 51.2 1.9, 49.1 4.2, 46.0 3.6, 50.6 0.7",
    cifar8="21.2 0.1, 21.4 0.3, 16.7 0.5, 20.9 0.4, 21.5 0.9, 20.6 0.5, 20.9 0.2",
    mnist="51.8 0.8, 52.7 3.2, 18.79 1.4, 52.5 3.5, 45.8 1.3, 43.3 4.6, 53.2 1.6",
    cifar10="20.4 0.3, 20.5 0.7, 12.7 0.0, 19.6 0.6, 19.6 0.2, 20.1 1.1, 17.9 0.0",
)

# Table 4: 2,000,000 rows; iterations, seconds per iteration, accuracy.
HUGE = _table(
    "rounds seconds accuracy",
    SKL_KM="79 7, 0.025, 70.8 0.001",
    CGC_KM="1000, 0.066, 70.8 0.001",
    DGC_KM="1000, 0.093, 70.3 0.9",
    ADMM_KM="1000, 0.099, 67.6 1.2",
)

# Table 5: adjusted Rand index on heterogeneous data.
HETEROGENEOUS = _table(
    "SKL-KM CGC-KM LGC-KM DGC-KM DGC-HL DGC-LL ADMM-KM",
    iris_het="0.67 0.12, 0.67 0.12, 0.66 0.02, 0.77 0.06, 0.76 0.06, 0.71 0.06, 0.76 0.02",
    mnist7_het="0.45 0.0005, 0.47 0.03, 0.06 0.01, 0.43 0.05, 0.47 0.04, 0.47 0.02, 0.48 0.02",
    cifar3_het=(
        "0.111 0.0, 0.113 0.003, 0.016 0.006, 0.111 0.003, 0.092 0.03, 0.108 0.002, 0.107 0.002"
    ),
)

# Table 6: accuracy on Iris by rho, B = 1.
BY_RHO = _table(
    "1 10 100 1000",
    DGC_KM="91.53 2.17, 91.13 0.85, 89.73 0.53, 91.93 0.96",
    DGC_HL="91.86 1.26, 91.20 0.78, 90.00 0.89, 91.80 1.39",
    DGC_LL="90.73 2.12, 91.00 0.45, 89.00 0.33, 90.67 1.23",
)

# Table 7: accuracy on Iris by B, rho = 10.
BY_UPDATES = _table(
    "1 10 100",
    DGC_KM="90.8 0.9, 90.8 0.9, 90.6 0.6",
    DGC_HL="90.6 0.5, 90.8 0.3, 90.7 0.2",
    DGC_LL="90.6 0.6, 90.7 0.5, 90.6 0.3",
)
