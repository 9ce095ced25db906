"""People, projects, tokens."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ninja import Schema
from pydantic import Field

from harness.accounts.models import Role, Scope
from harness.api.schemas.base import Moment, Strict


class ProjectRef(Schema):
    """A project, by its names."""

    slug: str = Field(examples=["vision"])
    name: str = Field(examples=["Vision"])


class ProjectOut(ProjectRef):
    """A project that the caller sees."""

    role: Role | None = Field(description="The caller's role in it, after the limits of the token.")
    members_count: int
    created_at: datetime
    deleted_at: datetime | None = Field(None, description="In the trash since.")


class ProjectHoldsOut(Schema):
    """What goes with a project that is deleted."""

    jobs: int
    drafts: int = Field(description="Of the jobs.")
    datasets: int
    weights: int
    uploads: int = Field(description="Unfinished.")
    members: int
    tokens: int = Field(description="API tokens for this project alone.")
    reservations: int
    quotas: int
    saved_views: int
    notifications: int
    used_bytes: int = Field(description="On the disk; files that other projects have as well stay for those.")
    jobs_active: list[str] = Field(description="Ids of jobs that wait, run or return results: they stand in the way.")


class ProjectIn(Strict):
    """A new project; the caller becomes its admin."""

    name: str = Field(max_length=120, examples=["Vision"])


class AuditQuery(Strict):
    """Which changes are wanted."""

    actor: str = Field("", max_length=150, description="Username; `-`: the command line.")
    action: str = Field("", max_length=40, examples=["membership_set"])
    since: Moment | None = None
    before: Moment | None = Field(None, description="Exclusive.")


class AuditOut(Schema):
    """One change of people, rights, tokens or the pool."""

    at: datetime
    actor: str | None = Field(description="Username; null: the command line.")
    token: str = Field(description="First letters of the API token it came with, else empty.")
    action: str = Field(examples=["membership_set"])
    target: str = Field(examples=["ada"])
    project: str | None = Field(description="Its slug.")
    data: dict[str, Any]


class MemberOut(Schema):
    """One person's role in a project."""

    username: str = Field(examples=["ada"])
    role: Role
    created_at: datetime


class RoleIn(Strict):
    """The role a person is to have."""

    role: Role


class UserOut(Schema):
    """A person with an account."""

    username: str = Field(examples=["ada"])
    email: str
    is_active: bool
    is_admin: bool = Field(description="Admin of the whole installation.")
    last_seen_at: datetime | None = Field(None, description="Last sign-in, or use of a token.")
    has_second_factor: bool = Field(description="A code from an app is required after the password.")
    has_identity: bool = Field(
        description="Is linked to the identity provider, whose verified e-mail address they have from each sign-in on."
    )
    must_change_password: bool = Field(
        description="Somebody else set the password; they choose their own at the next sign-in in a browser."
    )


class UserIn(Strict):
    """A new person."""

    username: str = Field(max_length=150, examples=["ada"])
    email: str = ""
    password: str = Field(
        "",
        max_length=200,
        description="Empty: one is made and answered. They choose their own at their first sign-in in a browser.",
    )
    is_admin: bool = False


class UserPatch(Strict):
    """What changes of a person."""

    is_active: bool | None = Field(None, description="false: may no longer sign in, and their tokens no longer work.")
    is_admin: bool | None = None
    email: str | None = Field(None, max_length=254, description="Their e-mail address; empty: none.")
    new_password: bool = Field(
        False,
        description="Make a new password, which they change at their next sign-in; sessions end, tokens stay.",
    )
    remove_second_factor: bool = Field(
        False, description="They sign in with the password alone; for people who lost a phone."
    )


class UserMade(UserOut):
    """A person just made, or changed."""

    password: str = Field("", description="The password, where one was made. Shown once.")


class UserGone(Schema):
    """An account that was deleted."""

    shown_as: str = Field(description="The name under which stays what the person made.", examples=["deleted-person-7"])


class TokenOut(Schema):
    """An API token, without its text."""

    id: str
    name: str = Field(examples=["laptop"])
    prefix: str = Field(description="First letters, to tell tokens apart.", examples=["dlh_3kfA9xQ2"])
    scope: Scope
    project: str | None = Field(description="Slug of the one project it is for; null: all of the person's.")
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None


class TokenMade(TokenOut):
    """A token just made."""

    token: str = Field(description="The text to send as `Authorization: Bearer`. Shown once, stored nowhere.")


class TokenIn(Strict):
    """A new token of the caller."""

    name: str = Field(max_length=80, examples=["laptop"])
    scope: Scope = Scope.WRITE
    project: str | None = Field(None, description="Slug of the one project it is to be for.")
    expires_at: Moment | None = None


class MeOut(Schema):
    """Who the caller is and what they may do."""

    username: str
    email: str
    is_admin: bool = Field(description="Admin of the installation, after the limits of the token.")
    scope: Scope | None = Field(description="Scope of the token; null for a browser session.")
    project: str | None = Field(description="Slug of the project the token is bound to.")
    projects: list[ProjectOut]
    default_project: str | None = Field(
        description="Slug of the project that data goes to where none is named: the only one the caller may add to, or "
        "else the only one of these that they created. Null: name one."
    )
