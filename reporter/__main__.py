"""``python -m reporter`` is the ``reporter`` command."""

from reporter.app.cli import main

if __name__ == "__main__":
    main()
