"""Golden files: each ``.mlir`` file below holds modules and what passes make of them.

The first line names the passes as ``bellhop-opt`` takes them::

    // RUN: --pass=order-effects

Cases are parted by ``// -----``, and each begins with its name, ``// TEST: name``.  The
checks of a case are those of FileCheck, on the module after the passes.  Passes are run a
second time too, and must then change nothing.  In a case marked ``// REFUSED`` the tool must
fail, and the checks are on its diagnostic.
"""

import io
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from filecheck.finput import FInput
from filecheck.matcher import Matcher
from filecheck.options import Options
from filecheck.parser import Parser, pattern_for_opts

from bellhop_mlir import opt

_SEPARATOR = re.compile(r"^// -----$", re.MULTILINE)


class GoldenFileError(Exception):
    """The passes or the checks of a golden file failed; its text is all there is to say."""


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if file_path.suffix != ".mlir":
        return None
    return GoldenFile.from_parent(parent, path=file_path)


class GoldenFile(pytest.File):
    def collect(self) -> Iterator[pytest.Item]:
        text = self.path.read_text()
        arguments = _directive("RUN", text)
        assert arguments is not None, f"{self.path} begins with no // RUN: line"
        start = 0
        for end in [*(match.start() for match in _SEPARATOR.finditer(text)), len(text)]:
            # Blank lines in place of the cases before keep the line numbers right.
            case = "\n" * text.count("\n", 0, start) + text[start:end]
            start = end
            name = _directive("TEST", case)
            assert name is not None, f"a case of {self.path} has no // TEST: line"
            keywords = {"arguments": shlex.split(arguments), "case": case}
            yield GoldenCase.from_parent(self, name=name, is_repeated=False, **keywords)
            if not _is_refused(case):
                yield GoldenCase.from_parent(
                    self, name=f"{name}[again]", is_repeated=True, **keywords
                )


def _directive(name: str, text: str) -> str | None:
    match = re.search(rf"^// {name}: *(.+)$", text, re.MULTILINE)
    return match and match[1].strip()


def _is_refused(case: str) -> bool:
    return re.search(r"^// REFUSED$", case, re.MULTILINE) is not None


class GoldenCase(pytest.Item):
    def __init__(
        self, *, arguments: list[str], case: str, is_repeated: bool, **keywords: Any
    ) -> None:
        super().__init__(**keywords)
        self._arguments = arguments
        self._case = case
        self._is_repeated = is_repeated

    def runtest(self) -> None:
        status, output, diagnostic = self._run(self._case)
        if _is_refused(self._case):
            if status != 1:
                raise GoldenFileError(f"should have been refused, and gave\n{output}")
            self._check(diagnostic)
            return
        if status != 0:
            raise GoldenFileError(diagnostic)
        if self._is_repeated:
            status, again, diagnostic = self._run(output)
            if (status, again) != (0, output):
                raise GoldenFileError(f"a second run changed\n{output}\ninto\n{again}{diagnostic}")
        else:
            self._check(output)

    def _run(self, text: str) -> tuple[int, str, str]:
        output, diagnostic = io.StringIO(), io.StringIO()
        status = opt.run_tool(self._arguments, io.StringIO(text), output, diagnostic)
        return status, output.getvalue(), diagnostic.getvalue()

    def _check(self, output: str) -> None:
        options = Options(match_filename=str(self.path), reject_empty_vars=True)
        parser = Parser(options, io.StringIO(self._case), *pattern_for_opts(options))
        matcher = Matcher(options, FInput("output", output), parser)
        matcher.stderr = io.StringIO()
        if matcher.run() != 0:
            raise GoldenFileError(f"{matcher.stderr.getvalue()}\nThe output was\n{output}")

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, GoldenFileError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        line = self._case.count("\n", 0, self._case.index("// TEST:"))
        return self.path, line, self.name
