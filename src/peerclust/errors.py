"""Every exception that peerclust raises, and nothing else.

::

    PeerclustError
    ├── InputError (also a ValueError)     invalid input from the caller
    │   ├── ParameterError                 an argument or option
    │   ├── DataError                      rows, weights, labels or a file of them
    │   │   ├── FewRowsError               fewer distinct rows than clusters
    │   │   └── SiteDataError              a site's file, of which other sites learn the rule
    │   └── GraphError                     a graph that does not connect all users
    ├── DivergedError (ArithmeticError)    centers became infinite, or left a loss's domain
    ├── JobError (RuntimeError)            a job of an experiment failed
    ├── PeerError (RuntimeError)           another site's process, or the network
    │   ├── LeftError                      this site was asked to leave the run early
    │   └── WireError                      bytes from a peer that are not a valid frame
    └── MissingExtraError (ImportError)    an optional dependency is not installed

Running out of rounds is not an exception but a status of the solution, with a sentence of advice.
"""

from __future__ import annotations


class PeerclustError(Exception):
    """The base class of every exception that peerclust raises on purpose."""

    @property
    def sentence(self) -> str:
        """The message; if it is a `text.Sentence`, it knows which of its words are parameters."""
        sentence: str = self.args[0] if self.args else ""
        return sentence


class InputError(PeerclustError, ValueError):
    """The caller's input is invalid; nothing has been computed or written."""


class ParameterError(InputError):
    """An argument or option is outside its range, of the wrong kind or unknown."""


class DataError(InputError):
    """Rows, weights or labels, or a file of them, cannot be used."""


class FewRowsError(DataError):
    """There are fewer distinct rows than clusters; `distinct` is how many there are.

    >>> FewRowsError("There are too few distinct rows.", distinct=2).distinct
    2
    """

    def __init__(self, sentence: str, distinct: int = 0) -> None:
        super().__init__(sentence)
        self.distinct = distinct


class SiteDataError(DataError):
    """A site's file cannot be used in a run; `rule` tells the other sites why, without its values.

    >>> SiteDataError("Column 'age' must ... Got 210 in row 3.", "'age' is out of range").rule
    "'age' is out of range"
    """

    def __init__(self, sentence: str, rule: str = "") -> None:
        super().__init__(sentence)
        self.rule = rule


class GraphError(InputError):
    """The graph does not fit the users, or does not connect them all."""


class DivergedError(PeerclustError, ArithmeticError):
    """Centers became infinite or left the domain of the loss: the step size is too large."""


class JobError(PeerclustError, RuntimeError):
    """A job of an experiment failed, or its process died; results of other jobs are saved."""


class PeerError(PeerclustError, RuntimeError):
    """Another site's process, or the network to it, failed; the message names the site."""


class LeftError(PeerError):
    """The site's process was asked to stop before the run ended; its state is saved."""


class WireError(PeerError):
    """Bytes from a peer are not a valid frame, or not one that is allowed now."""


class MissingExtraError(PeerclustError, ImportError):
    """An optional dependency is not installed; the message names the extra to install."""
