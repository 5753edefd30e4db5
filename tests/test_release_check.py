"""What `make release-check` writes, and that its parts and files are there."""

import re
import shutil
import sys
import tomllib
from pathlib import Path

import pytest
from tests import needs

ROOT = Path(__file__).parents[1]
RELEASE = ROOT / ".ci" / "release"


pytestmark = needs.CLONE.unless(RELEASE.exists())


@pytest.fixture
def release(monkeypatch):
    """Return a function that imports a module of `.ci/release`, which is not a package."""
    monkeypatch.syspath_prepend(str(RELEASE))
    yield __import__
    for name in ("check", "page", "parts", "ready", "set_address"):
        sys.modules.pop(name, None)


def test_each_part_runs_a_target_that_there_is(release):
    parts = release("parts").make_parts("make", "python", 120, ["0.10.0", "0.12"])
    targets = re.findall(r"^([\w-]+(?: [\w-]+)*):(?!=)", (ROOT / "Makefile").read_text(), re.M)
    known = {name for names in targets for name in names.split()}
    for part in parts:
        for target in re.findall(r"\bmake ([\w.-]+)", part.command):
            assert target in known or target.startswith("test-with-jax-"), part
    assert len({part.name for part in parts}) == len(parts)
    shares = [part.command.split()[2:] for part in parts if part.name.startswith("jax-")]
    assert shares == [["SHARE=1/2"], ["SHARE=2/2"]]


def test_the_page_says_what_passed_failed_and_was_skipped(release, tmp_path):
    part = release("parts").Part
    parts = [
        part("good", "that it works", "echo noise; echo '3 passed in 1s'", 0.1),
        part("bad", "that it fails", "echo '1 failed, 2 passed'; exit 3", 0.1, "failed"),
        part("late", "nothing", "exit 0", 0.1),
    ]
    run_part = release("check").run_part
    outcomes = {each.name: run_part(each, tmp_path / "log", "abc") for each in parts[:2]}
    assert outcomes["good"].evidence == ["3 passed in 1s"]
    assert outcomes["bad"].status == 3
    page = release("page")
    text = page.format_page("0.1.0", "abc of 2026-01-01", parts, {"good", "bad"}, outcomes, {})
    for line in (
        "**Not to be released**: bad failed.",
        "Skipped by an option: late.",
        f"| good | that it works | passed | 0.0 | {outcomes['good'].date} | 1 | abc |",
        f"| bad | that it fails | failed | 0.0 | {outcomes['bad'].date} | 1 | abc |",
        "| late | nothing | skipped | | | | |",
    ):
        assert line in text.splitlines()
    good = {"good": outcomes["good"]}
    assert "**Incomplete**" in page.format_page("0.1.0", "abc", parts, {"good"}, good, {})
    complete = page.format_page("0.1.0", "abc", parts[:1], {"good"}, good, {})
    assert "**Complete**: all parts passed." in complete
    changes = {"abc": ["def A later commit"]}
    several = page.format_page("0.1.0", "def", parts[:1], {"good"}, good, changes)
    assert "**Complete**" not in several
    assert "## Changes after good\n\nAfter abc:\n\n```text\ndef A later commit\n" in several


def test_the_evidence_of_a_part_has_no_colours(release):
    part = release("parts").Part("upload", "PyPI would take the files", "exit 0", 0.1, "PASSED$")
    assert part.find_evidence("a.whl: \x1b[32mPASSED\x1b[0m\n") == ["a.whl: PASSED"]


def test_the_pages_quote_the_output_of_each_part(release):
    nothing = release("page").NO_EVIDENCE
    for page in (ROOT / "doc" / "releases").glob("[0-9]*.md"):
        assert nothing not in page.read_text(), page


def test_the_page_has_a_column_for_each_machine(release):
    part, outcome = release("parts").Part, release("page").Outcome
    parts = [part(name, "it", "exit 0", 0.1) for name in ("here", "there", "here-too")]
    outcomes = {
        "here": outcome(0, 1.0, [], "2026-01-01", {"cores": "2", "Python": "3.12.1"}),
        "there": outcome(0, 1.0, [], "2026-01-02", {"cores": "8", "Python": "3.12.1"}),
        "here-too": outcome(0, 1.0, [], "2026-01-02", {"cores": "2", "Python": "3.12.1"}),
    }
    page = release("page").format_page("0.1.0", "abc", parts, set(outcomes), outcomes, {})
    lines = page.splitlines()
    assert [line for line in lines if line.startswith(("| cores", "| Python"))] == [
        "| cores | 2 | 8 |",
        "| Python | 3.12.1 | 3.12.1 |",
    ]
    assert "| there | it | passed | 0.0 | 2026-01-02 | 2 |  |" in lines
    assert "| here-too | it | passed | 0.0 | 2026-01-02 | 1 |  |" in lines


def test_a_check_resumes_on_the_same_sources(release, tmp_path):
    check, outcome = release("check"), release("page").Outcome
    file = tmp_path / "outcomes.json"
    assert check.read_outcomes(file, ["abc"]) == {}
    passed, failed = outcome(0, 1.5, ["3 passed"], commit="abc"), outcome(1, 2.0, commit="abc")
    check.save_outcomes(file, {"quick": passed, "rest": failed})
    assert check.read_outcomes(file, ["abc"]) == {"quick": passed}
    assert check.read_outcomes(file, ["def", "abc"]) == {"quick": passed}
    assert check.read_outcomes(file, ["def"]) == {}


def test_the_commits_since_another_are_those_of_sources(release, tmp_path, monkeypatch):
    check = release("check")
    monkeypatch.chdir(tmp_path)
    git = check.run_git
    git("init", "--quiet")
    for name in ("user.name", "user.email"):
        git("config", name, "somebody")
    for file in ("README.md", "first.py", "second.py", "doc/releases/0.1.0.md", "third.py"):
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        Path(file).write_text("text\n")
        git("add", file)
        git("commit", "--quiet", "--message", f"Add {file}")
    third, second = check.find_commits(git("log", "--format=%H", "--", "second.py"))
    assert check.find_commits("HEAD~") == [third, second]
    assert check.find_commits() == [third]
    assert third.split()[0] == git("rev-parse", "HEAD")
    subject, _, *files = check.describe_changes(second, third)
    assert subject.endswith(" Add third.py")
    assert [line.split()[0] for line in files] == ["third.py", "1"]


def test_the_address_is_put_into_all_files(release, tmp_path):
    module = release("set_address")
    for name in module.FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    # The second address replaces the first one, as the first one replaces an address of this clone.
    for owner, name in (("some.body", "bellhop"), ("some", "body.else")):
        module.set_address(tmp_path, f"{owner}/{name}")
        texts = {file: (tmp_path / file).read_text() for file in module.FILES}
        for file, text in texts.items():
            assert f"github.com/{owner}/{name}" in text, file
            assert set(re.findall(r"githubusercontent\.com/([^/]+/[^/]+)/", text)) <= {
                f"{owner}/{name}"
            }
        document = tomllib.loads(texts["pyproject.toml"])
        assert document["project"]["urls"] == {
            "Documentation": f"https://{owner}.github.io/{name}/",
            "Source": f"https://github.com/{owner}/{name}",
            "Issues": f"https://github.com/{owner}/{name}/issues",
            "Changelog": f"https://github.com/{owner}/{name}/blob/main/CHANGELOG.md",
        }
        assert document["project"]["dynamic"] == ["version", "readme"]
    assert "some.body" not in "".join(texts.values())

    readme = (ROOT / "README.md").read_text()
    hook = document["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    for rule in hook["substitutions"]:
        readme = re.sub(rule["pattern"], rule["replacement"], readme)
    assert re.findall(r"\]\((?!https://|#)[^)]*\)", readme) == []
    with pytest.raises(ValueError, match="expected OWNER/NAME"):
        module.set_address(tmp_path, "somebody")


def test_an_address_without_a_place_changes_no_file(release, tmp_path):
    module = release("set_address")
    for name in module.FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("text\n")
    with pytest.raises(ValueError, match="expected one place of"):
        module.set_address(tmp_path, "somebody/bellhop")
    assert {(tmp_path / name).read_text() for name in module.FILES} == {"text\n"}


def test_a_tree_is_ready_when_its_release_is_dated_and_described(release, tmp_path, monkeypatch):
    ready = release("ready")
    monkeypatch.setattr(ready.subprocess, "run", lambda *_, **__: type("Done", (), {"stdout": ""}))
    (tmp_path / "doc" / "start").mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text('[project.urls]\nSource = "https://somewhere"\n')
    pages = {
        "CHANGELOG.md": "# Changelog\n\n## 0.2.0 (unreleased)\n\n## 0.1.0 (2026-01-01)\n",
        "CITATION.cff": "version: 0.1.0\n",
        "README.md": "It is not published yet.\n",
    }
    for name, text in pages.items():
        (tmp_path / name).write_text(text)
    assert ready.find_newest_release(tmp_path) == ("0.2.0", "unreleased")
    faults = {requirement: fault for requirement, fault in ready.find_faults(tmp_path) if fault}
    assert list(faults) == [
        "a dated section in CHANGELOG.md",
        "the version of CHANGELOG.md in CITATION.cff",
        "the date-released of CHANGELOG.md in CITATION.cff",
        "pages that say how to install a published package",
    ]
    (tmp_path / "CHANGELOG.md").write_text("## 0.2.0 (2026-02-03)\n")
    (tmp_path / "CITATION.cff").write_text('version: 0.2.0\ndate-released: "2026-02-03"\n')
    (tmp_path / "README.md").write_text("pip install pennylane-bellhop\n")
    assert not any(fault for _, fault in ready.find_faults(tmp_path))
