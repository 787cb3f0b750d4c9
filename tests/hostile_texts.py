"""Texts from outside that would do harm in a log or on a terminal."""

HOSTILE = {
    "escape": "\x1b[31mred",
    "one-byte escape": "\x9b31mred",
    "bell": "\x07\x08",
    "carriage return": "all good\rbad",
    "line break": "bad\nall good",
    "null and delete": "\x00\x7f",
    "right to left": "\u202egood\u2066\u2069",
    "line separator": "bad\u2028\u2029\u0085good",
    "invisible": "a\u200b\ufeff\u00ad",
    "surrogate": "\udc9b",
    "not a character": "\U000e0041\uffff",
}
