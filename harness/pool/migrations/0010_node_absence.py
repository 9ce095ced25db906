import django.db.models.deletion
from django.db import migrations, models


def begin_for_those_down(apps, editor) -> None:
    """Nodes that are down now have been since their last heartbeat; earlier absences nobody kept."""
    alias = editor.connection.alias
    down = apps.get_model("pool", "Node").objects.using(alias).filter(state="down", heartbeat_at__isnull=False)
    absence = apps.get_model("pool", "NodeAbsence")
    absence.objects.using(alias).bulk_create([absence(node=node, since=node.heartbeat_at) for node in down])


class Migration(migrations.Migration):
    dependencies = [("pool", "0009_link_network")]

    operations = [
        migrations.CreateModel(
            name="NodeAbsence",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("since", models.DateTimeField()),
                ("until", models.DateTimeField(blank=True, null=True)),
                (
                    "node",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="absences", to="pool.node"
                    ),
                ),
            ],
            options={"indexes": [models.Index(fields=["node", "until"], name="node_absence")]},
        ),
        migrations.RunPython(begin_for_those_down, migrations.RunPython.noop),
    ]
