"""Portal and control load what each start needs and no more: the libraries of a fit take longer than Django itself."""

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
PAGES = {"harness.api.routes", "harness.pages.urls"}


@pytest.mark.parametrize("part", LOADS)
def test_a_part_starts_without_what_only_fits_and_previews_need(part, tmp_path):
    code = f"import django\ndjango.setup()\n{LOADS[part]}\nimport sys\nprint(*sys.modules)"
    environment = {**os.environ, "DLH_HOME": str(tmp_path), "DJANGO_SETTINGS_MODULE": "harness.settings"}
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    loaded = set(done.stdout.split())
    assert "harness.jobs.services" in loaded and not LATER & loaded
    assert PAGES & loaded == (PAGES if part == "portal" else set())
