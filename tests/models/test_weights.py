"""Where a model lies, and what is said when it is not there."""

import errno
from pathlib import Path

import pytest
from spoilt_models import spoilt

from tercet.models import weights


def test_a_directory_is_found_and_a_name_on_the_hub_is_left_to_be_fetched(
    tiny_backbone: Path,
) -> None:
    assert weights.locate(str(tiny_backbone)) == tiny_backbone.resolve()
    assert weights.fetch(str(tiny_backbone)) == tiny_backbone.resolve()
    assert weights.locate("owner/name") is None
    assert weights.locate("bert-base-uncased") is None


def test_a_folder_of_a_package_is_found_without_importing_it(
    tiny_backbone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "packed_model"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError")
    (package / "model").symlink_to(tiny_backbone)
    monkeypatch.syspath_prepend(tmp_path)
    assert weights.locate("package:packed_model/model") == package / "model"
    with pytest.raises(weights.ModelMissing, match="other"):
        weights.locate("package:packed_model/other")


@pytest.mark.parametrize("name", ["./nosuch", "/nosuch", "a/b/c", "package:nosuch/model"])
def test_what_is_not_there(name: str) -> None:
    with pytest.raises(weights.ModelMissing, match=r"nosuch|a/b/c"):
        weights.locate(name)


def test_a_directory_without_a_configuration(tmp_path: Path) -> None:
    with pytest.raises(weights.ModelMissing, match=r"config\.json"):
        weights.locate(str(tmp_path))


def test_a_layer_in_a_pickle_is_refused_beside_safetensors(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").touch()
    for layer in ("2_Dense", "3_Router/query_0_Dense"):
        (tmp_path / layer).mkdir(parents=True)
        pickle = tmp_path / layer / "pytorch_model.bin"
        pickle.touch()
        with pytest.raises(weights.ModelMissing, match=rf"{layer}/pytorch_model\.bin"):
            weights.locate(str(tmp_path))
        (tmp_path / layer / "model.safetensors").touch()
        assert weights.locate(str(tmp_path)) == tmp_path


@pytest.mark.parametrize("fault", ["weightless", "pickle"])
def test_weights_are_safetensors(tiny_backbone: Path, tmp_path: Path, fault: str) -> None:
    model = spoilt(tiny_backbone, fault, tmp_path)
    with pytest.raises(weights.ModelMissing, match="safetensors"):
        weights.locate(str(model))


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.EDQUOT, "Disk quota exceeded"),
        RuntimeError("I/O error: No space left on device (os error 28)"),
    ],
)
@pytest.mark.parametrize("wrapped", [False, True])
def test_a_full_disk_is_not_the_hubs_fault(
    monkeypatch: pytest.MonkeyPatch, error: Exception, wrapped: bool
) -> None:
    import huggingface_hub

    def refuses(name: str, **options: object) -> str:
        if wrapped:
            raise RuntimeError("The download failed.") from error
        raise error

    monkeypatch.setattr(huggingface_hub, "snapshot_download", refuses)
    with pytest.raises(type(error)) as raised:
        weights.fetch("owner/name")
    assert raised.value is error


def test_a_hub_without_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    def refuses(name: str, **options: object) -> str:
        raise ConnectionError(name)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", refuses)
    with pytest.raises(weights.ModelMissing, match="owner/name"):
        weights.fetch("owner/name")
    assert weights.cached("owner/name") is None
