"""ASGI entry point: `uvicorn harness.asgi:application`."""

from __future__ import annotations

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "harness.settings")

from harness.api.limits import BodyLimit

application = BodyLimit(get_asgi_application())
