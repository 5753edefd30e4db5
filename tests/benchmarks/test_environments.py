"""The environments of the peers."""

from benchmarks import environments


def test_an_environment_of_other_packages_is_made_again(tmp_path, monkeypatch):
    installations = []
    monkeypatch.delenv("BELLHOP_PEERS_PYTHON", raising=False)
    monkeypatch.setattr(environments, "__file__", str(tmp_path / "environments.py"))
    monkeypatch.setattr(environments, "_run", lambda *command: installations.append(command))
    (tmp_path / ".venv-peers").mkdir()
    for packages in (["qulacs"], ["qulacs"], ["qulacs", "jax==0.10.2"]):
        environments._environment("peers", *packages)
    installed = [command[5:] for command in installations if "pip" in command]
    assert installed == [("qulacs",), ("qulacs", "jax==0.10.2")]
