"""Every public name has a docstring with an example, which runs as it stands."""

import doctest
import inspect
import re
from pathlib import Path

import jax
import pytest
from tests.needs import PYTORCH, params
from tests.public_api import documented, with_examples

REFERENCE = Path(__file__).parents[1] / "doc" / "reference"
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
EXAMPLES = with_examples()


def _examples(name):
    finder = doctest.DocTestFinder(recurse=False)
    return [test for test in finder.find(EXAMPLES[name], name, globs={}) if test.examples]


@pytest.fixture
def as_it_was(own_directory):
    """Put back the options of JAX that an example changes."""
    names = [
        "jax_compilation_cache_dir",
        "jax_persistent_cache_min_compile_time_secs",
        "jax_persistent_cache_min_entry_size_bytes",
    ]
    before = {name: getattr(jax.config, name) for name in names}
    yield
    for name, value in before.items():
        jax.config.update(name, value)


@pytest.mark.parametrize(
    "name", params(EXAMPLES, {name: PYTORCH for name in EXAMPLES if "torch" in name.lower()})
)
def test_the_example_runs_and_shows_what_it_says(name, as_it_was):
    tests = _examples(name)
    assert tests, f"{name} has no example in its docstring"
    shown = [example.want for test in tests for example in test.examples if example.want]
    assert shown, f"the example of {name} shows nothing"
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    for test in tests:
        runner.run(test, out=report.append)
    assert runner.failures == 0, "".join(report)


@pytest.mark.parametrize(
    "name", [name for name, value in EXAMPLES.items() if inspect.isfunction(value)]
)
def test_arguments_are_described(name):
    value = EXAMPLES[name]
    text = inspect.getdoc(value)
    if "Args and errors are the same as for" in text:
        return
    parameters = [name for name in inspect.signature(value).parameters if name != "self"]
    missing = [p for p in parameters if not re.search(rf"(?m)^    {re.escape(p)}: ", text)]
    assert not missing, f"{name} does not say what {', '.join(missing)} are"


def test_the_reference_names_everything_that_is_public():
    directive = re.compile(r"^\.\. auto(?:function|class|exception|data|attribute):: (\S+)", re.M)
    named = [
        name for page in REFERENCE.glob("*.md") for name in directive.findall(page.read_text())
    ]
    assert sorted(named) == sorted(documented())
