"""Saved functions that somebody changed."""

import zipfile

from bellhop.archive.archive import digest


def members_of(path):
    """Return what is in a file, by name."""
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist()}


def repack(path, members, *, comment=None):
    """Write a file with these members and, if no other comment is given, their digest."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content)
        file.comment = digest(members) if comment is None else comment
