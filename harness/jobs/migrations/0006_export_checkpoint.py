from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("jobs", "0005_estimate_turn"),
    ]

    operations = [
        migrations.AddField(
            model_name="modelexport",
            name="checkpoint",
            field=models.CharField(blank=True, default="", max_length=40),
        ),
    ]
