"""The processes that share the users of a problem: a process group, and who holds which users."""
