"""Files that are rejected, each with its error sentence."""

from pathlib import Path

import pytest


def csv(name, text):
    path = Path(name)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def bad(claim, sentence, files, **options):
    return pytest.param(files, options, sentence, id=claim)


BAD_FILES = [
    bad("missing", "There is no file a.csv.", {}),
    bad("suffix", "The file a.txt must end in .csv or .parquet.", {"a.txt": "a\n1\n"}),
    bad("empty", "The file a.csv is empty.", {"a.csv": ""}),
    bad("no rows", "There must be rows in some file. Got none in a.csv.", {"a.csv": "a,b\n"}),
    bad(
        "ragged",
        "The file a.csv is not a readable CSV table: found more fields than defined in 'Schema'.",
        {"a.csv": "a,b\n1,2\n1,2,3\n"},
    ),
    bad(
        "not utf-8",
        "The file a.csv is not a readable CSV table: invalid utf-8 sequence.",
        {"a.csv": "a,b\n1,é\n".encode("latin-1")},
    ),
    bad(
        "text",
        "Column 'b' of a.csv must be numbers. Got 'x' in row 1; choose other columns with"
        " --columns.",
        {"a.csv": "a,b\n1,2\n3,x\n"},
    ),
    bad(
        "text in a requested column",
        "Column 'b' of a.csv must be numbers. Got 'x' in row 1.",
        {"a.csv": "a,b\n1,2\n3,x\n"},
        columns=["b"],
    ),
    bad(
        "null",
        "Column 'b' of a.csv must be finite numbers. Got nothing in row 1.",
        {"a.csv": "a,b\n1,2\n3,\n"},
    ),
    bad(
        "nan",
        "Column 'b' of a.csv must be finite numbers. Got nan in row 0.",
        {"a.csv": "a,b\n1,NaN\n3,4\n"},
    ),
    bad(
        "infinite",
        "Column 'a' of a.csv must be finite numbers. Got -inf in row 1.",
        {"a.csv": "a,b\n1,2\n-inf,4\n"},
    ),
    bad(
        "unknown column",
        "There is no column 'petl' in a.csv. Did you mean 'petal'?",
        {"a.csv": "petal,b\n1,2\n"},
        columns=["petl"],
    ),
    bad(
        "unknown users' column",
        "There is no column 'q' in a.csv.",
        {"a.csv": "site,b\n1,2\n"},
        users_column="q",
    ),
    bad(
        "columns that differ",
        "All files must have the same columns. Compared with a.csv, b.csv lacks 'y' and also has"
        " 'z'; choose common columns with --columns.",
        {"a.csv": "x,y\n1,2\n", "b.csv": "x,z\n1,2\n"},
    ),
    bad(
        "same stems",
        "Each file must be a different user, named by the file. Got a.csv and sub/a.csv; rename"
        " one, or name the users in a column, with --users-column.",
        {"a.csv": "x\n1\n", "sub/a.csv": "x\n1\n"},
    ),
    bad(
        "row without a user",
        "Column 'site' of a.csv must name a user in each row. Got nothing in row 1.",
        {"a.csv": "site,x\nrome,1\n ,2\n"},
        users_column="site",
    ),
    bad(
        "negative weight",
        "Column 'w' of a.csv must be weights >= 0. Got -1.0 in row 1.",
        {"a.csv": "x,w\n1,1\n2,-1\n"},
        weights_column="w",
    ),
    bad(
        "no header",
        "The first line of a.csv must name the columns. Got 5.1, 3.5.",
        {"a.csv": "5.1,3.5\n4.9,3.0\n"},
    ),
    bad(
        "columns of one name",
        "The columns of a.csv must have different names. Got 'x' twice.",
        {"a.csv": "x,x\n1,2\n"},
    ),
    bad(
        "column without a name",
        "Column 0 of a.csv has no name; name it, or choose columns with --columns.",
        {"a.csv": ",x\n0,2\n"},
    ),
    bad(
        "nothing but users",
        "The file a.csv must have at least one column of numbers.",
        {"a.csv": "site\nrome\n"},
        users_column="site",
    ),
]
