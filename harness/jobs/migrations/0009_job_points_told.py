from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("jobs", "0008_job_taken"),
    ]

    operations = [
        migrations.AddField(
            model_name="job",
            name="points_told",
            field=models.PositiveBigIntegerField(default=0),
        ),
    ]
