"""The command `penstock`, as the wheel installs it."""

import sys

from . import _core


def main() -> int:
    """Runs the command line of this process and returns its exit code."""
    return _core.main(["penstock", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
