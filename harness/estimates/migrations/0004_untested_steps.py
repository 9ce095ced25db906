from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("estimates", "0003_probe_looks"),
    ]

    operations = [
        migrations.AddField(
            model_name="offerrow",
            name="untested_steps",
            field=models.FloatField(blank=True, null=True),
        ),
    ]
