from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("jobs", "0011_attempt_released"),
    ]

    operations = [
        migrations.AddField(
            model_name="job",
            name="moved_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
    ]
