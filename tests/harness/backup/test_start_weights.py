"""Weights files of people come back with a backup: what is known of them, and their bytes."""

from __future__ import annotations

from pathlib import Path

from tests.harness.backup.conftest import call

SET_UP = "import django; django.setup(); from harness.datasets.models import WeightsFile; "
MAKE = (
    SET_UP + "from harness.accounts.models import Project, User; from tests.factory_weights import weights_make; "
    "user = User.objects.get(); project = Project.objects.first(); weights_make(user, project)"
)
READ = (
    SET_UP + "from django.conf import settings; from harness.datasets.safetensors_header import header_read; "
    "one = WeightsFile.objects.get(); "
    "file = settings.STORE.dataset(one.sha256).packed / 'weights.safetensors'; "
    "print(one.name, header_read(file))"
)


def test_a_weights_file_comes_back_with_its_bytes(home: Path, tmp_path: Path) -> None:
    here, there = (
        {"DLH_HOME": place, "DJANGO_SETTINGS_MODULE": "harness.settings"} for place in (home, tmp_path / "b")
    )
    steps = (
        call(MAKE, **here),
        call("harness.backup", "make", tmp_path / "one.dlh", **here),
        call("harness.backup", "restore", tmp_path / "one.dlh", **there),
        call(READ, **there),
    )
    assert not [step.stderr for step in steps if step.returncode]
    assert steps[-1].stdout.startswith("mine Header(tensors=2,")
