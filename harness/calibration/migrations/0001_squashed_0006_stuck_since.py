import django.db.models.deletion
import harness.ids
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    replaces = [
        ('calibration', '0001_initial'),
        ('calibration', '0002_longer_mode'),
        ('calibration', '0003_finished_load'),
        ('calibration', '0004_ran_out'),
        ('calibration', '0005_one_sweep_per_model'),
        ('calibration', '0006_stuck_since'),
    ]

    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ('jobs', '0001_initial'),
        ('pool', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='CalibrationRun',
            fields=[
                ('id', models.CharField(default=harness.ids.new_id, editable=False, max_length=12, primary_key=True, serialize=False)),
                ('node_name', models.CharField(max_length=60)),
                ('kind', models.CharField(choices=[('cpu', 'CPU core'), ('cuda', 'NVIDIA GPU')], max_length=8)),
                ('model_name', models.CharField(blank=True, max_length=120)),
                ('budget_s', models.FloatField()),
                ('used_s', models.FloatField(default=0.0)),
                ('state', models.CharField(choices=[('waiting', 'Waits for its devices to fall idle'), ('running', 'Measures'), ('finished', 'Ended by itself: nothing left to measure, or the budget used up'), ('stopped', 'Stopped by a person'), ('failed', 'Ended by a fault')], db_index=True, default='waiting', max_length=10)),
                ('planned', models.PositiveIntegerField(default=0)),
                ('before', models.PositiveIntegerField(default=0)),
                ('measured', models.PositiveIntegerField(default=0)),
                ('refused', models.JSONField(blank=True, default=list)),
                ('pending', models.JSONField(blank=True, default=dict)),
                ('reservations', models.JSONField(blank=True, default=list)),
                ('fitted_points', models.PositiveIntegerField(default=0)),
                ('fitting_since', models.DateTimeField(blank=True, null=True)),
                ('stuck_since', models.DateTimeField(blank=True, null=True)),
                ('message', models.TextField(blank=True)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('running_at', models.DateTimeField(blank=True, null=True)),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
                ('node', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='calibrations', to='pool.node')),
                ('started_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='calibrations', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'constraints': [models.UniqueConstraint(condition=models.Q(('state__in', ['waiting', 'running'])), fields=('node_name', 'kind', 'model_name'), name='one_open_calibration_per_node_and_model')],
            },
        ),
        migrations.CreateModel(
            name='CalibrationPointRow',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('cpu', 'CPU core'), ('cuda', 'NVIDIA GPU')], max_length=8)),
                ('model_name', models.CharField(blank=True, max_length=120)),
                ('point_id', models.CharField(max_length=120)),
                ('family', models.CharField(db_index=True, max_length=40)),
                ('batch_size', models.PositiveIntegerField()),
                ('step_s', models.FloatField()),
                ('peak_bytes', models.BigIntegerField()),
                ('power_w', models.FloatField(blank=True, null=True)),
                ('noise', models.FloatField()),
                ('body', models.JSONField()),
                ('imported', models.BooleanField(default=False)),
                ('node_name', models.CharField(blank=True, max_length=60)),
                ('measured_at', models.DateTimeField(auto_now=True)),
                ('run', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='points', to='calibration.calibrationrun')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('kind', 'model_name', 'point_id'), name='one_row_per_point')],
            },
        ),
        migrations.CreateModel(
            name='DeviceModelRow',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('cpu', 'CPU core'), ('cuda', 'NVIDIA GPU')], max_length=8)),
                ('model_name', models.CharField(blank=True, max_length=120)),
                ('fitted', models.JSONField()),
                ('model', models.JSONField()),
                ('n_points', models.PositiveIntegerField(default=0)),
                ('n_finished', models.PositiveIntegerField(default=0)),
                ('report', models.JSONField(blank=True, default=dict)),
                ('link', models.JSONField(blank=True, default=dict)),
                ('fitted_at', models.DateTimeField()),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('kind', 'model_name'), name='one_model_per_device_kind')],
            },
        ),
        migrations.CreateModel(
            name='FinishedJobRow',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('cpu', 'CPU core'), ('cuda', 'NVIDIA GPU')], max_length=8)),
                ('model_name', models.CharField(blank=True, max_length=120)),
                ('family', models.CharField(blank=True, max_length=40)),
                ('count', models.PositiveSmallIntegerField(default=1)),
                ('mode', models.CharField(blank=True, max_length=20)),
                ('predicted', models.JSONField(blank=True, default=dict)),
                ('workload', models.JSONField(blank=True, default=dict)),
                ('allocation', models.JSONField(blank=True, default=dict)),
                ('step_s', models.FloatField(blank=True, null=True)),
                ('start_s', models.FloatField(blank=True, null=True)),
                ('load_s', models.FloatField(blank=True, null=True)),
                ('run_s', models.FloatField(blank=True, null=True)),
                ('peak_bytes', models.BigIntegerField(blank=True, null=True)),
                ('energy_j', models.FloatField(blank=True, null=True)),
                ('energy_basis', models.CharField(blank=True, max_length=10)),
                ('run_comparable', models.BooleanField(default=True)),
                ('finished_at', models.DateTimeField(db_index=True)),
                ('job', models.OneToOneField(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='finished_cost', to='jobs.job')),
            ],
        ),
        migrations.CreateModel(
            name='RanOutRow',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('cpu', 'CPU core'), ('cuda', 'NVIDIA GPU')], max_length=8)),
                ('model_name', models.CharField(blank=True, max_length=120)),
                ('workload', models.JSONField(blank=True, default=dict)),
                ('allocation', models.JSONField(blank=True, default=dict)),
                ('limit_bytes', models.BigIntegerField(blank=True, null=True)),
                ('ended_at', models.DateTimeField(db_index=True)),
                ('attempt', models.OneToOneField(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='ran_out', to='jobs.jobattempt')),
            ],
        ),
    ]
