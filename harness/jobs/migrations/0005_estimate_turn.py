from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("jobs", "0004_export_weights"),
    ]

    operations = [
        migrations.AddField(
            model_name="job",
            name="estimate_turn",
            field=models.PositiveIntegerField(default=0),
        ),
    ]
