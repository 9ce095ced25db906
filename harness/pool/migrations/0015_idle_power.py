import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('pool', '0014_device_absence'),
    ]

    operations = [
        migrations.CreateModel(
            name='IdlePower',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('model_name', models.CharField(blank=True, max_length=120)),
                ('readings_w', models.JSONField(default=list)),
                ('watts', models.FloatField(blank=True, null=True)),
                ('read_at', models.DateTimeField()),
                ('device', models.OneToOneField(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='idle_power', to='pool.device')),
                ('node', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='idle_powers', to='pool.node')),
            ],
            options={
                'constraints': [models.UniqueConstraint(condition=models.Q(('device', None)), fields=('node',), name='one_idle_power_of_cores')],
            },
        ),
    ]
