from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("jobs", "0003_model_export"),
    ]

    operations = [
        migrations.AddField(
            model_name="modelexport",
            name="weights_sha256",
            field=models.CharField(blank=True, default="", max_length=64),
        ),
    ]
