from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("jobs", "0010_open_rows"),
    ]

    operations = [
        migrations.AddField(
            model_name="job",
            name="moved_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
    ]
