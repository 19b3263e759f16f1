"""Errors meant for people: what is wrong, where, and what to do. They are printed without a traceback."""


class ReporterError(Exception):
    """An expected failure. Its text is one sentence a user can act on; the command line prints it and exits 1."""


class UsageError(ReporterError):
    """The call or the study is wrong: nothing was computed or written, exit code 2."""
