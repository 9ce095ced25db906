from django.db import migrations, models


def read_taken(apps, editor) -> None:
    """Until now only a guess of the resolved spec told that its mode came with an offer."""
    rows = apps.get_model("jobs", "Job").objects.using(editor.connection.alias)
    for job in rows.exclude(resolved={}).only("spec", "resolved").iterator():
        mode = job.spec.get("mode") or "auto"
        reason = next((one["reason"] for one in job.resolved.get("guesses", ()) if one.get("field") == "mode"), None)
        if mode != "auto" and reason is not None:
            rows.filter(pk=job.pk).update(taken={"mode": mode, "reason": reason})


class Migration(migrations.Migration):

    dependencies = [
        ("jobs", "0007_promise_state"),
    ]

    operations = [
        migrations.AddField(
            model_name="job",
            name="taken",
            field=models.JSONField(blank=True, default=dict),
        ),
        migrations.RunPython(read_taken, migrations.RunPython.noop),
    ]
