from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("pool", "0006_node_near"),
    ]

    operations = [
        migrations.AddField(
            model_name="poolsetting",
            name="network_encryption",
            field=models.CharField(
                choices=[
                    ("off", "Never"),
                    ("kernel", "Where the kernels of its nodes can"),
                    ("preferred", "Where its nodes can, by a process if need be"),
                    ("required", "Always: no job over nodes that cannot"),
                ],
                default="kernel",
                max_length=10,
            ),
        ),
    ]
