"""Errors named by what the caller does next."""


class BadInput(ValueError):
    """The input is wrong; the message is one sentence that names the place and what would be right. Exit code 2."""


class NotReady(RuntimeError):
    """There is nothing to decide on yet: skip this slot."""


class Retry(RuntimeError):
    """A passing fault: the same call may succeed later."""
