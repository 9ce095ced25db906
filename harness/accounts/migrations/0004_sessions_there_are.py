from datetime import timedelta

from django.conf import settings
from django.contrib.sessions.backends.db import SessionStore
from django.db import migrations
from django.utils import timezone


def note(apps, schema_editor):
    """Sign-ins from before can be seen and ended, too."""
    now = timezone.now()
    users = set(apps.get_model("accounts", "User").objects.values_list("pk", flat=True))
    found = apps.get_model("accounts", "BrowserSession")
    for session in apps.get_model("sessions", "Session").objects.filter(expire_date__gt=now).iterator():
        user_id = SessionStore().decode(session.session_data).get("_auth_user_id", "")
        if user_id.isdecimal() and int(user_id) in users:
            since = session.expire_date - timedelta(seconds=settings.SESSION_COOKIE_AGE)
            row = found.objects.create(user_id=int(user_id), session_key=session.session_key, seen_at=since)
            found.objects.filter(pk=row.pk).update(created_at=since)


class Migration(migrations.Migration):

    dependencies = [
        ("accounts", "0003_browser_session"),
        ("sessions", "0001_initial"),
    ]

    operations = [
        migrations.RunPython(note, migrations.RunPython.noop),
    ]
