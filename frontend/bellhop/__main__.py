"""``python -m bellhop doctor``: whether everything that programs need is there and works."""

import argparse
import sys


def main(arguments: list[str] | None = None) -> int:
    """Run a command and return the exit status of the process."""
    parser = argparse.ArgumentParser(prog="python -m bellhop", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("doctor", help="show versions and devices, and try each in one screen")
    parser.parse_args(arguments)
    from bellhop.doctor import examine

    return examine()


if __name__ == "__main__":
    sys.exit(main())
