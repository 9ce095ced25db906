"""Django app."""

from django.apps import AppConfig


class PagesConfig(AppConfig):
    """The app `harness.pages`: views, forms and template tags."""

    name = "harness.pages"
    label = "pages"
