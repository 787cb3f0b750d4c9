"""Every exception that peerclust raises, and nothing else.

::

    PeerclustError
    ├── InputError (also a ValueError)     what the caller gave cannot be used
    │   ├── ParameterError                 an argument or option
    │   ├── DataError                      rows, weights, labels or a file of them
    │   └── GraphError                     users who cannot all reach each other
    ├── DivergedError (ArithmeticError)    centers left the numbers, or a loss's domain
    ├── JobError (RuntimeError)            a job of an experiment did not come to its end
    ├── PeerError (RuntimeError)           another site's process, or the network between
    │   ├── LeftError                      a site was asked to leave a run before its end
    │   └── WireError                      bytes from a peer that are no frame of ours
    └── MissingExtraError (ImportError)    an optional dependency is not installed

Running out of rounds is no exception but a status of the solution, with a sentence of advice.
"""

from __future__ import annotations


class PeerclustError(Exception):
    """The root of every exception that peerclust raises on purpose."""


class InputError(PeerclustError, ValueError):
    """What the caller gave cannot be used; nothing has been computed or written."""


class ParameterError(InputError):
    """An argument or option is outside its range, of the wrong kind or unknown."""


class DataError(InputError):
    """Rows, weights or labels, or a file of them, cannot be used."""


class GraphError(InputError):
    """The graph does not fit the users, or does not connect them all."""


class DivergedError(PeerclustError, ArithmeticError):
    """Centers became infinite or left the domain of the loss: the step is too long."""


class JobError(PeerclustError, RuntimeError):
    """A job of an experiment failed, or its process ended; what other jobs gave is kept."""


class PeerError(PeerclustError, RuntimeError):
    """Another site's process, or the network between, did not do its part; it is named."""


class LeftError(PeerError):
    """The site's process was asked to end before the run did; what it had is kept."""


class WireError(PeerError):
    """Bytes that a peer sent are not a frame, or not one that may come now."""


class MissingExtraError(PeerclustError, ImportError):
    """An optional dependency is not installed; the message names the extra that brings it."""
