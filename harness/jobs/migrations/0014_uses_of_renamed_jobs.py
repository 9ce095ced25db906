from django.db import migrations
from django.db.models import F, OuterRef, Subquery


def name_anew(apps, editor) -> None:
    """Until lately a job that was renamed kept its old name on what it had used, and stood under that among uses."""
    jobs = apps.get_model("jobs", "Job").objects.using(editor.connection.alias)
    uses = apps.get_model("jobs", "DeviceUse").objects.using(editor.connection.alias)
    name = jobs.filter(pk=OuterRef("job_id")).values("name")
    uses.filter(job__isnull=False).exclude(job_name=F("job__name")).update(job_name=Subquery(name[:1]))


class Migration(migrations.Migration):

    dependencies = [
        ("jobs", "0013_job_weights"),
    ]

    operations = [
        migrations.RunPython(name_anew, migrations.RunPython.noop),
    ]
