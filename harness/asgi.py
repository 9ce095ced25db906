"""ASGI entry point: `uvicorn harness.asgi:application`."""

from __future__ import annotations

import os
from importlib import import_module

from django.core.asgi import get_asgi_application

from worker.loading import loading

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "harness.settings")

with loading():
    _portal = get_asgi_application()
    from harness.api.limits import BodyLimit  # models are loaded by the line above

    application = BodyLimit(_portal)
    import_module("harness.urls")  # else the first request would load it
