from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("pool", "0002_joining"),
    ]

    operations = [
        migrations.AddField(
            model_name="device",
            name="slowdown",
            field=models.FloatField(default=1.0),
        ),
    ]
