"""Users, projects, memberships and API tokens."""

from __future__ import annotations

from django.contrib.auth.models import AbstractUser
from django.core.exceptions import ValidationError
from django.db import models

from harness.ids import new_id


class User(AbstractUser):
    """A person. `is_superuser` makes an admin of the whole installation (pool, users, projects)."""

    must_change_password = models.BooleanField(default=False)
    """Somebody else knows the password: in a browser its person does nothing before they have chosen their own."""
    time_zone = models.CharField(max_length=64, blank=True)
    """The one they chose; empty: that of their browser."""
    browser_time_zone = models.CharField(max_length=64, blank=True)
    """As the browser they used last tells it."""
    deleted_at = models.DateTimeField(null=True, blank=True)
    """The account was deleted: the row stays for what it made, without anything of the person (`leaving`)."""
    link_allowed_until = models.DateTimeField(null=True, blank=True)
    """Until then the provider's person with this account's e-mail address, if verified, may take it as theirs, once."""

    def clean(self) -> None:
        """Refuse a name that browsers take out of addresses: on no page could an admin do anything about the person."""
        super().clean()
        if self.username in {".", ".."}:
            raise ValidationError({"username": "The user names . and .. cannot be used."})


class Role(models.TextChoices):
    """What a member may do in a project. Order: viewer < member < admin."""

    VIEWER = "viewer", "Viewer: sees everything, changes nothing"
    MEMBER = "member", "Member: adds datasets, runs jobs, changes them"
    ADMIN = "admin", "Admin: also manages members and deletes for good"


ROLE_ORDER = (Role.VIEWER, Role.MEMBER, Role.ADMIN)


class Project(models.Model):
    """A room that datasets and jobs belong to; nobody outside sees it."""

    id = models.CharField(primary_key=True, max_length=12, default=new_id, editable=False)
    slug = models.SlugField(max_length=60, unique=True)
    name = models.CharField(max_length=120)
    created_at = models.DateTimeField(auto_now_add=True)
    members = models.ManyToManyField(User, through="Membership", related_name="projects")
    deleted_at = models.DateTimeField(null=True, blank=True)
    """In the trash since: nobody sees it or what is in it, but for its admins on the list of what may be restored."""

    def __str__(self) -> str:
        return self.name


class Membership(models.Model):
    """One person's role in one project."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=10, choices=Role.choices, default=Role.MEMBER)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "user"], name="one_role_per_project")]


class Scope(models.TextChoices):
    """What a token may do, at most (the person's role still limits it)."""

    READ = "read", "Read"
    WRITE = "write", "Read and change: upload, submit, cancel"
    ADMIN = "admin", "Everything the person may do, the pool included"


class AuditEvent(models.Model):
    """Who changed rights or the pool, what, and when. Rows are only ever added."""

    at = models.DateTimeField(auto_now_add=True, db_index=True)
    actor = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="audit_events")
    """None: the command line."""
    token = models.CharField(max_length=12, blank=True)
    """First letters of the API token it came with."""
    action = models.CharField(max_length=40)
    """`<entity>_<verb>`, as the service is called."""
    target = models.CharField(max_length=160)
    project = models.ForeignKey(Project, null=True, on_delete=models.SET_NULL, related_name="audit_events")
    data = models.JSONField(default=dict)


class ApiToken(models.Model):
    """A token for CLI and programs. Only its SHA-256 is stored; the text is shown once."""

    id = models.CharField(primary_key=True, max_length=12, default=new_id, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=80)
    prefix = models.CharField(max_length=12)
    digest = models.CharField(max_length=64, unique=True)
    scope = models.CharField(max_length=10, choices=Scope.choices, default=Scope.WRITE)
    project = models.ForeignKey(Project, null=True, blank=True, on_delete=models.CASCADE, related_name="tokens")
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)


class Identity(models.Model):
    """A person of an identity provider who signs in as a user: known by issuer and subject, never by an address."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="identities")
    issuer = models.CharField(max_length=255)
    subject = models.CharField(max_length=255)
    created_at = models.DateTimeField(auto_now_add=True)
    used_at = models.DateTimeField(null=True, blank=True)
    made_admin = models.BooleanField(default=False)
    """The provider's group made the user an admin, who is none any more on leaving it."""

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["issuer", "subject"], name="identity_of_one_user"),
            models.UniqueConstraint(fields=["user", "issuer"], name="one_identity_per_issuer"),
        ]

    @property
    def makes_admin(self) -> bool:
        """Whether the user is an admin by this link alone."""
        return self.made_admin and self.user.is_superuser


class RecoveryCode(models.Model):
    """A code that signs a person in once, in place of their app's. Only its SHA-256 is stored; it is shown once."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="recovery_codes")
    digest = models.CharField(max_length=64)
    used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "digest"], name="recovery_code_once")]


class SignInFailure(models.Model):
    """One refused sign-in, kept for as long as it counts against the next ones."""

    name = models.CharField(max_length=150)
    """User name as typed, in small letters; there need not be such a user."""
    address = models.CharField(max_length=64)
    at = models.DateTimeField(auto_now_add=True, db_index=True)

    class Meta:
        indexes = [models.Index(fields=["name", "at"])]


class BrowserSession(models.Model):
    """A browser in which a person is signed in: what is known of one of Django's sessions."""

    id = models.CharField(primary_key=True, max_length=12, default=new_id, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="browser_sessions")
    session_key = models.CharField(max_length=40, unique=True)
    """Key of the sign-in itself; where there is none of it, it has ended. Never shown."""
    user_agent = models.CharField(max_length=300, blank=True)
    address = models.CharField(max_length=64, blank=True)
    """From where it was seen last."""
    created_at = models.DateTimeField(auto_now_add=True)
    seen_at = models.DateTimeField()
