"""The members of a saved file, a zip archive, with a bound on the memory that they take."""

import hashlib
import zipfile
from collections.abc import Mapping

from bellhop.archive.schema import Malformed

# Bytes that the members of any file may take together.
_SMALL = 2**25
# Bytes of the members for each byte of a larger file.
_LARGEST_RATIO = 100
# Programs in a file, each for other types of arguments.
MOST_PROGRAMS = 1000
# The metadata, and a module and machine code for each program.
_MOST_MEMBERS = 1 + 2 * MOST_PROGRAMS
# Begins the entry of each member in the directory of a zip archive.
_ENTRY = b"PK\1\2"


def digest(members: Mapping[str, bytes]) -> bytes:
    """Compute a digest of all members of a saved file, which detects damaged files.

    The zip archive has it as its comment.

    Args:
        members: content of each member by name, in the order of the file.

    Returns:
        the SHA-256 of ``"name size "`` and content of each member, one after the other, as ASCII
        hexadecimal digits.
    """
    whole = hashlib.sha256()
    for name, content in members.items():
        whole.update(f"{name} {len(content)} ".encode())
        whole.update(content)
    return whole.hexdigest().encode()


def verify_number_of_members(content: bytes) -> None:
    r"""Raise an error if an archive has many more members than a saved function has.

    The signatures ``PK\1\2``, one for each member, are counted before ``zipfile`` makes an object
    for each member. The limit is twice the largest number of members, 2001, as compressed data may
    contain these bytes too.

    Args:
        content: bytes of the whole archive.

    Raises:
        Malformed: for more than 4002 signatures.
    """
    if content.count(_ENTRY) > 2 * _MOST_MEMBERS:
        raise Malformed(f"the file has more than {2 * _MOST_MEMBERS} signatures of members")


def read_members(file: zipfile.ZipFile, size: int) -> dict[str, bytes]:
    """Read all members of a saved file into memory, up to a limit.

    Args:
        file: the archive, of unknown origin.
        size: bytes of the whole archive.

    Returns:
        the content of each member by name, in the order of the file.

    Raises:
        Malformed: if the members together have more than 32 MiB and more than 100 times `size`,
            are compressed by another method than deflate, or share a name: other programs might
            read the other member.
    """
    infos = file.infolist()
    if sum(info.file_size for info in infos) > max(_SMALL, _LARGEST_RATIO * size):
        raise Malformed(
            f"the file has {size} bytes and would expand beyond the limit of "
            f"{max(_SMALL, _LARGEST_RATIO * size)} bytes"
        )
    # Other compression methods raise errors of their own, and no saved file uses them.
    if not {info.compress_type for info in infos} <= {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
        raise Malformed("the file's compression method is not supported, expected deflate or none")
    members: dict[str, bytes] = {}
    for info in infos:
        if info.filename in members:
            raise Malformed(f"the file has two members with the name {info.filename!r}")
        with file.open(info) as member:
            # Without a size, ``read`` unpacks up to 2 GiB before it compares the content with the
            # size that the file declares.
            members[info.filename] = member.read(info.file_size)
    return members
