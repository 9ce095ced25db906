import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import harness.ids


class Migration(migrations.Migration):

    dependencies = [
        ("jobs", "0002_attempt_width"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="ModelExport",
            fields=[
                ("id", models.CharField(default=harness.ids.new_id, editable=False, max_length=12, primary_key=True, serialize=False)),
                ("token", models.PositiveIntegerField()),
                ("state", models.CharField(default="waiting", max_length=10)),
                ("report", models.JSONField(blank=True, default=dict)),
                ("problem", models.JSONField(blank=True, null=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("finished_at", models.DateTimeField(blank=True, null=True)),
                ("job", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="exports", to="jobs.job")),
                ("owner", models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL)),
            ],
        ),
    ]
