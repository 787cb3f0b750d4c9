"""Files that are rejected, each with its error sentence."""

import gzip
from pathlib import Path

import pytest

from peerclust.tables import CsvOptions


def csv(name, text):
    path = Path(name)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def bad(claim, sentence, files, **options):
    return pytest.param(files, options, sentence, id=claim)


def too_many(width, got, row, delimiter=","):
    return (
        f"The rows of a.csv must have no more fields than the first line, {width}. Got {got} in row"
        f" {row}, read with '{delimiter}' as delimiter and '.' as decimal sign; name other signs"
        " with --delimiter and --decimal."
    )


BAD_FILES = [
    bad("missing", "There is no file a.csv.", {}),
    bad(
        "suffix",
        "The file a.txt must end in .csv, .tsv, .csv.gz, .tsv.gz or .parquet.",
        {"a.txt": "a\n1\n"},
    ),
    bad("empty", "The file a.csv is empty.", {"a.csv": ""}),
    bad("no rows", "There must be rows in some file. Got none in a.csv.", {"a.csv": "a,b\n"}),
    bad(
        "ragged",
        too_many(2, 3, 1),
        {"a.csv": "a,b\n1,2\n1,2,3\n"},
    ),
    bad(
        "line ends of old",
        "The lines of a.csv must end with \\n or \\r\\n. Got \\r only; save it with other line"
        " ends.",
        {"a.csv": "a,b\r1,2\r3,4\r"},
    ),
    bad(
        "number whose square overflows",
        "Column 'b' of a.csv must be finite numbers below 1e+150. Got -1e+200 in row 1.",
        {"a.csv": "a,b\n1,2\n3,-1e200\n"},
    ),
    bad(
        "long text",
        "Column 'b' of a.csv must be numbers. Got 'xxxxxxxxxxxx...xxxxxxxxxxxxx' in row 0; choose"
        " other columns with --columns.",
        {"a.csv": f"a,b\n1,{2000 * 'x'}\n"},
    ),
    bad(
        "columns of one name but for blanks",
        "The columns of a.csv must have different names. Got 'x' twice.",
        {"a.csv": "x, x\n1,2\n"},
    ),
    bad(
        "not utf-8",
        "The file a.csv must be text in UTF-8. Got the byte 0xe9 in line 2; save it as UTF-8.",
        {"a.csv": "a,b\n1,é\n".encode("latin-1")},
    ),
    bad(
        "not utf-8 in the header of a compressed file",
        "The file a.csv.gz must be text in UTF-8. Got the byte 0xe9 in line 1; save it as UTF-8.",
        {"a.csv.gz": gzip.compress("a,é\n1,2\n".encode("latin-1"))},
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
        "no header in a file of one column",
        "The first line of a.csv must name the columns. Got 42.",
        {"a.csv": "42\n7\n9\n100\n"},
    ),
    bad(
        "no header but whole numbers that follow each other",
        "The first line of a.csv must name the columns. Got 5, 6.",
        {"a.csv": "5,6\n7,8\n"},
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
    bad(
        "missing column",
        "There is no column 'z' in a.csv (read with ';' as delimiter and ',' as decimal sign).",
        {"a.csv": "x;y\n1,5;2\n"},
        columns=["z"],
    ),
    bad(
        "misspelled column",
        "There is no column 'widht' in a.tsv (read with a tab as delimiter and '.' as decimal"
        " sign). Did you mean 'width'?",
        {"a.tsv": "width\ty\n1.5\t2\n"},
        columns=["widht"],
    ),
    bad(
        "more fields than names",
        too_many(2, 3, 1, ";"),
        {"a.csv": "x;y\n1;2\n1;2;3\n"},
    ),
    bad(
        "fewer fields than names",
        "Column 'y' of a.tsv (read with a tab as delimiter and '.' as decimal sign) must be finite"
        " numbers. Got nothing in row 1.",
        {"a.tsv": "x\ty\n1\t2\n1\n"},
    ),
    bad(
        "text beside decimal commas",
        "Column 'y' of a.csv (read with ';' as delimiter and ',' as decimal sign) must be numbers."
        " Got 'b' in row 1; choose other columns with --columns.",
        {"a.csv": "x;y\n1,5;2\n1;b\n"},
    ),
    bad(
        "row without a user between pipes",
        "Column 's' of a.csv (read with '|' as delimiter and '.' as decimal sign) must name a user"
        " in each row. Got nothing in row 0.",
        {"a.csv": "s|x\n|2\n"},
        users_column="s",
    ),
    bad(
        "columns that differ by dialect",
        "All files must have the same columns. Compared with a.csv, b.csv (read with ';' as"
        " delimiter and '.' as decimal sign) lacks 'y' and also has 'z'; choose common columns"
        " with --columns.",
        {"a.csv": "x,y\n1,2\n", "b.csv": "x;z\n1;2\n"},
    ),
    bad(
        "thousands only",
        "Column 'y' of a.csv (read with ';' as delimiter and '.' as decimal sign) must be numbers."
        " Got '1,234' in row 0; if ',' is the decimal sign, give --decimal comma.",
        {"a.csv": "x;y\n1;1,234\n2;987\n"},
    ),
    bad(
        "millions",
        "Column 'y' of a.tsv (read with a tab as delimiter and '.' as decimal sign) must be"
        " numbers. Got '1,234,567' in row 0; choose other columns with --columns.",
        {"a.tsv": "x\ty\n1.5\t1,234,567\n2\t987\n"},
    ),
    bad(
        "thousands beside decimal commas",
        "Column 'y' of a.csv (read with ';' as delimiter and ',' as decimal sign) must be numbers."
        " Got '1.234' in row 100; if '.' is the decimal sign, give --decimal point.",
        {"a.csv": "x;y\n" + "1,5;2\n" * 100 + "1,5;1.234\n"},
    ),
    bad(
        "thousands with decimal commas",
        "Column 'y' of a.csv (read with ';' as delimiter and ',' as decimal sign) must be numbers."
        " Got '1.234,5' in row 0; choose other columns with --columns.",
        {"a.csv": "x;y\n0,5;1.234,5\n"},
    ),
    bad(
        "both decimal signs",
        "The first lines of a.csv do not show whether '.' or ',' is the decimal sign: got 1.234"
        " and 2,5; name it with --decimal.",
        {"a.csv": "x;y\n1.234;2,5\n"},
    ),
    bad(
        "decimal commas and comma delimiter",
        too_many(2, 4, 0),
        {"a.csv": "x,y\n1,5,2,5\n"},
    ),
    bad(
        "quoted decimal commas and comma delimiter",
        "Column 'x' of a.csv must be numbers. Got '1,5' in row 0; choose other columns with"
        " --columns.",
        {"a.csv": 'x,y\n"1,5","2,5"\n'},
    ),
    bad(
        "two delimiters that divide into numbers",
        "The first lines of a.csv do not show whether ',' or ';' is the delimiter; name it with"
        " --delimiter.",
        {"a.csv": "size, cm;weight, kg\n1,5;2,5\n"},
    ),
    bad(
        "mixed delimiters",
        "The first lines of a.csv do not show whether ',' or ';' is the delimiter; name it with"
        " --delimiter.",
        {"a.csv": "x,y;z\n1,2,3\n1;2;3\n"},
    ),
    bad(
        "unknown delimiter",
        "There is no column 'x' in a.csv (read with ',' as delimiter and '.' as decimal sign; give"
        " another with --delimiter). Did you mean 'x y'?",
        {"a.csv": "x y\n1 2\n"},
        columns=["x"],
    ),
    bad(
        "one column with decimal commas",
        too_many(1, 2, 0),
        {"a.csv": "x\n1,5\n2,5\n"},
    ),
    bad(
        "wrong delimiter",
        "The lines of a.csv must have ';' as delimiter. Got ','; name it with --delimiter.",
        {"a.csv": "x,y\n1,2\n"},
        csv=CsvOptions(";"),
    ),
    bad(
        "wrong decimal sign",
        "The decimal sign of a.csv must differ from its delimiter. Got --decimal comma for a file"
        " whose delimiter is ',' too.",
        {"a.csv": "x,y\n1,2\n"},
        csv=CsvOptions(decimal=","),
    ),
    bad("empty gzip", "The file a.csv.gz is empty.", {"a.csv.gz": gzip.compress(b"")}),
    bad("nothing at all", "The file a.tsv.gz is empty.", {"a.tsv.gz": b""}),
    bad(
        "truncated gzip",
        "The file a.csv.gz must be a complete gzip file.",
        {"a.csv.gz": gzip.compress(b"x,y\n" + bytes(range(48, 58)) * 9)[:-9]},
    ),
    bad(
        "damaged gzip",
        "The file a.csv.gz must be a complete gzip file.",
        {"a.csv.gz": gzip.compress(b"x,y\n1,2\n")[:-8] + bytes(8)},
    ),
    bad(
        "garbage after gzip",
        "The file a.csv.gz must be a complete gzip file.",
        {"a.csv.gz": gzip.compress(b"x,y\n1,2\n") + b"more"},
    ),
    bad(
        "binary",
        "The file a.csv must be text in UTF-8. Got binary data.",
        {"a.csv": b"PK\x03\x04\x14\x00\x06\x00;,"},
    ),
    bad(
        "UTF-16",
        "The file a.tsv must be text in UTF-8. Got UTF-16; save it as UTF-8.",
        {"a.tsv": "x\ty\n1\t2\n".encode("utf-16")},
    ),
    bad(
        "tabs, not utf-8",
        "The file a.tsv must be text in UTF-8. Got the byte 0xe9 in line 2; save it as UTF-8.",
        {"a.tsv": "x\ty\n1\té\n".encode("latin-1")},
    ),
]
