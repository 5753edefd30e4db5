"""``python -m bellhop``: the version, and ``doctor``, which checks an installation."""

import argparse
import sys
from importlib.metadata import version


def main(arguments: list[str] | None = None) -> int:
    """Run ``python -m bellhop`` and return the exit status of the process.

    ``doctor`` checks the installation; without a command, the help is printed.

    Args:
        arguments: the command line without the program's name, such as
            ``["doctor", "--verbose"]``; None for ``sys.argv[1:]``.

    Returns:
        0 on success; 1 if ``doctor`` finds something that does not work.

    Raises:
        SystemExit: for ``--help`` and ``--version``, and for an invalid command line.
    """
    parser = argparse.ArgumentParser(prog="python -m bellhop", description=__doc__)
    parser.add_argument(
        "--version", action="version", version=f"bellhop {version('pennylane-bellhop')}"
    )
    commands = parser.add_subparsers(dest="command")
    doctor = commands.add_parser("doctor", help="show versions and devices, and try each of them")
    doctor.add_argument(
        "--verbose", action="store_true", help="also show the engine and the replaced parts"
    )
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help()
        return 0
    from bellhop.doctor import examine

    return examine(verbose=options.verbose)


if __name__ == "__main__":
    sys.exit(main())
