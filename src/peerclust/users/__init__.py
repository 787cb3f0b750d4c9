"""A block of users: rows, assignment, gradient and cost."""

from peerclust.users.assignment import Assignment
from peerclust.users.users import Step, Users

__all__ = ["Assignment", "Step", "Users"]
