from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("jobs", "0001_initial"),
    ]

    operations = [
        migrations.AddField(
            model_name="jobattempt",
            name="width",
            field=models.JSONField(blank=True, default=dict),
        ),
    ]
