"""Where bars are shown: in a terminal they move, and a file gets their end."""

import os
import re
import select
import struct
import subprocess
import sys
import textwrap

import pytest
from tests.frontend.progress_bars.bars import lines
from tests.needs import TERMINALS
from tests.patience import PATIENCE

_SLOW = """
    import sys, time, bellhop

    def wait(i):
        # Long enough to be told of each.
        time.sleep(0.01)
        if i % 20 == 10 and len(sys.argv) > 1:
            sys.stdin.readline()
        return float(i)

    @bellhop.qjit
    def f():
        def body(i, x):
            return x + bellhop.io_callback(wait, float)(i)

        return bellhop.for_loop(0, 80, 1, progress="slow")(body)(0.0)

    f()
"""


def test_a_file_gets_the_end_alone(run_script, tmp_path):
    script = (
        _SLOW
        + f"""
    sys.stderr = open({str(tmp_path / "log")!r}, "w")
    start = time.monotonic()
    f()
    print(time.monotonic() - start)
    """
    )
    seconds = float(run_script(script))
    log = (tmp_path / "log").read_text()
    assert lines(log) == [("slow", 80, 80)]
    # And a line every ten seconds, should the machine be that slow.
    assert log.count("slow") <= 1 + seconds // 9


@pytest.mark.subprocess
def test_a_terminal_sees_it_move():
    import fcntl
    import pty
    import termios

    try:
        ours, theirs = pty.openpty()
    except OSError:  # as in a container without /dev/pts
        TERMINALS.skip()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    command = [sys.executable, "-c", textwrap.dedent(_SLOW), "stops"]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    seen = b""

    def read():
        nonlocal seen
        assert select.select([ours], [], [], PATIENCE)[0], seen
        try:
            part = os.read(ours, 4096)
        except OSError:  # Linux's way to say that nobody writes there any more
            part = b""
        seen += part
        return part

    def counts():
        return [int(count) for count in re.findall(rb"\| (\d+)/80", seen)]

    try:
        # Where it stops, it goes on when that was seen.
        for stop in (10, 30, 50, 70):
            while stop not in counts():
                assert read(), seen
            child.stdin.write(b"\n")
            child.stdin.flush()
        while read():
            pass
        assert child.wait(PATIENCE) == 0
    finally:
        child.kill()
        child.stdin.close()
        os.close(ours)
    assert counts() == sorted(counts())
    assert counts()[-1] == 80
    assert seen.count(b"\n") == 1
