from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("pool", "0004_own_network"),
    ]

    operations = [
        migrations.AddField(
            model_name="device",
            name="uuid",
            field=models.CharField(blank=True, max_length=80),
        ),
        migrations.AddField(
            model_name="device",
            name="away_since",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.RemoveConstraint(
            model_name="device",
            name="one_row_per_device",
        ),
        migrations.AddConstraint(
            model_name="device",
            constraint=models.UniqueConstraint(
                condition=models.Q(("away_since", None)),
                fields=("node", "kind", "index"),
                name="one_row_per_device",
            ),
        ),
    ]
