"""`manage.py admin_create NAME`: make the first admin and a project, print a password.

The first admin's password is their own: who installs the harness reads it. Everybody else's has gone through the hands
of somebody at this machine, and is changed at the next sign-in.
"""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from harness.accounts.models import Project, User
from harness.accounts.names import name_meant
from harness.accounts.services import project_create, token_create, user_create, user_password_reset


class Command(BaseCommand):
    """Make an admin, or with `--reset` give an existing one a new password."""

    help = "Create an admin with a password that is made and printed and, in an empty installation, the first project."

    def add_arguments(self, parser: CommandParser) -> None:
        """Options of the command."""
        parser.add_argument("username", nargs="?", default="admin")
        parser.add_argument("--project", default="First project", help="name of the first project")
        parser.add_argument("--reset", action="store_true", help="give an existing user a new password")
        parser.add_argument("--token", default="", help="also make an API token with this name")
        parser.add_argument("--json", action="store_true", help="print one JSON line")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run it. With a user that exists and no `--reset` the password is left alone and printed empty."""
        user = User.objects.filter(username=name_meant(options["username"])).first()
        password = ""
        if user is None:
            is_first = not User.objects.exists()
            user, password = user_create(actor=None, username=options["username"], is_admin=True, is_own=is_first)
        elif options["reset"]:
            password = user_password_reset(actor=None, user=user)
        if not Project.objects.exists():
            project_create(user=user, name=options["project"])
        token = token_create(user=user, name=options["token"], scope="admin")[1] if options["token"] else ""
        if options["json"]:
            self.stdout.write(json.dumps({"username": user.username, "password": password, "token": token}))
            return
        self.stdout.write(f"user      {user.username}")
        self.stdout.write(f"password  {password or '(unchanged; --reset sets a new one)'}")
        if token:
            self.stdout.write(f"token     {token}")
