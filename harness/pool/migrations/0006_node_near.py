from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("pool", "0005_device_away"),
    ]

    operations = [
        migrations.AddField(
            model_name="node",
            name="near",
            field=models.CharField(blank=True, max_length=60),
        ),
    ]
