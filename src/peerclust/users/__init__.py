"""A block of users: rows, assignment, gradient and cost."""

from peerclust.users.assignment import Assignment
from peerclust.users.users import Users

__all__ = ["Assignment", "Users"]
