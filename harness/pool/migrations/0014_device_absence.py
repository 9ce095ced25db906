import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('pool', '0013_planned_until'),
    ]

    operations = [
        migrations.AddField(
            model_name='nodeabsence',
            name='device',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='absences', to='pool.device'),
        ),
    ]
