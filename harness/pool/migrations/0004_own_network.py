from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("pool", "0003_device_slowdown"),
    ]

    operations = [
        migrations.AddField(
            model_name="poolsetting",
            name="own_network",
            field=models.BooleanField(default=True),
        ),
    ]
