"""Portal, control and commands load what each start needs and no more: what fits and estimates use takes longer than
Django itself."""

import os
import subprocess
import sys

import pytest

from harness.env import REPOSITORY

LOADS = {
    "portal": "import harness.asgi, gc\nassert gc.isenabled() and gc.get_freeze_count() > 100_000",
    "control": "from harness.celery import app\napp.loader.import_default_modules()\n"
    "assert {'control.tick', 'control.calibration_fit'} <= set(app.tasks)",
}
LATER = {"scipy", "sklearn", "polars", "pyarrow", "torch", "onnx", "onnxruntime", "onnxscript"}
LATER |= {"joserfc", "cryptography.hazmat"}  # of the first sign-in by an identity provider
PAGES = {"harness.api.routes", "harness.pages.urls"}


def loaded(code, home):
    """Modules that a process has loaded where Django has started and it has run this."""
    code = f"import django\ndjango.setup()\n{code}\nimport sys\nprint(*sys.modules)"
    environment = {**os.environ, "DLH_HOME": str(home), "DJANGO_SETTINGS_MODULE": "harness.settings"}
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


@pytest.mark.parametrize("part", LOADS)
def test_a_part_starts_without_what_only_fits_and_previews_need(part, tmp_path):
    found = loaded(LOADS[part], tmp_path)
    assert "harness.jobs.services" in found and not LATER & found
    assert PAGES & found == (PAGES if part == "portal" else set())


def test_a_short_command_starts_without_numbers_and_queue(tmp_path):
    found = loaded("", tmp_path)
    assert "harness.jobs.models" in found
    assert not {"numpy", "celery", "redis", *LATER} & found
