import django.core.validators
import django.db.models.deletion
import harness.ids
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    replaces = [
        ('pool', '0001_initial'),
        ('pool', '0002_joining'),
        ('pool', '0003_device_slowdown'),
        ('pool', '0004_own_network'),
        ('pool', '0005_device_away'),
        ('pool', '0006_node_near'),
        ('pool', '0007_network_encryption'),
        ('pool', '0008_node_link'),
        ('pool', '0009_link_network'),
        ('pool', '0010_node_absence'),
        ('pool', '0011_data_rate'),
        ('pool', '0012_open_ended'),
        ('pool', '0013_planned_until'),
    ]

    initial = True

    dependencies = [
        ('accounts', '0001_initial'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Node',
            fields=[
                ('id', models.CharField(default=harness.ids.new_id, editable=False, max_length=12, primary_key=True, serialize=False)),
                ('name', models.SlugField(max_length=60, unique=True)),
                ('state', models.CharField(choices=[('up', 'Up'), ('drain', 'Draining: running jobs end, no new ones'), ('down', 'Down: no heartbeat')], default='down', max_length=8)),
                ('drain_wanted', models.BooleanField(default=False)),
                ('cpu_cores', models.PositiveIntegerField(default=0)),
                ('memory_bytes', models.BigIntegerField(default=0)),
                ('sandbox_level', models.SmallIntegerField(default=0)),
                ('sandbox_reason', models.TextField(blank=True)),
                ('description', models.JSONField(blank=True, default=dict)),
                ('boot_id', models.CharField(blank=True, max_length=64)),
                ('heartbeat_at', models.DateTimeField(blank=True, null=True)),
                ('running', models.JSONField(blank=True, default=list)),
                ('address', models.CharField(blank=True, max_length=64)),
                ('near', models.CharField(blank=True, max_length=60)),
                ('secret_digest', models.CharField(blank=True, db_index=True, max_length=64)),
                ('joined_at', models.DateTimeField(blank=True, null=True)),
                ('check_result', models.JSONField(blank=True, default=dict)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
            ],
        ),
        migrations.CreateModel(
            name='PoolSetting',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('minimum_sandbox_level_own_code', models.SmallIntegerField(default=1)),
                ('minimum_sandbox_level_generated', models.SmallIntegerField(default=0)),
                ('backend', models.CharField(default='horovod', max_length=10)),
                ('max_restarts', models.PositiveSmallIntegerField(default=3)),
                ('policy', models.CharField(choices=[('fifo', 'First come, first served'), ('edf', 'Earliest deadline first'), ('fair_share', 'Fair share between projects'), ('deadline_energy', 'Keep deadlines with the least energy')], default='deadline_energy', max_length=20)),
                ('co2_g_per_kwh', models.FloatField(default=400.0, validators=[django.core.validators.MinValueValidator(0), django.core.validators.MaxValueValidator(5000)])),
                ('data_mib_per_s', models.FloatField(default=10.0, validators=[django.core.validators.MinValueValidator(0.01), django.core.validators.MaxValueValidator(1000000.0)])),
                ('power_table', models.JSONField(blank=True, default=dict)),
                ('span_nodes', models.BooleanField(default=False)),
                ('own_network', models.BooleanField(default=True)),
                ('network_encryption', models.CharField(choices=[('off', 'Never'), ('kernel', 'Where the kernels of its nodes can'), ('preferred', 'Where its nodes can, by a process if need be'), ('required', 'Always: no job over nodes that cannot')], default='kernel', max_length=10)),
            ],
        ),
        migrations.CreateModel(
            name='SchedulerTurn',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.BigIntegerField(default=0)),
                ('busy', models.BooleanField(default=False)),
                ('again', models.BooleanField(default=False)),
                ('taken_at', models.DateTimeField(blank=True, null=True)),
            ],
        ),
        migrations.CreateModel(
            name='JoinToken',
            fields=[
                ('id', models.CharField(default=harness.ids.new_id, editable=False, max_length=12, primary_key=True, serialize=False)),
                ('digest', models.CharField(max_length=64, unique=True)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('expires_at', models.DateTimeField()),
                ('used_at', models.DateTimeField(blank=True, null=True)),
                ('by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL)),
                ('node', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='join_tokens', to='pool.node')),
            ],
        ),
        migrations.CreateModel(
            name='Device',
            fields=[
                ('id', models.CharField(default=harness.ids.new_id, editable=False, max_length=12, primary_key=True, serialize=False)),
                ('kind', models.CharField(choices=[('cpu', 'CPU core'), ('cuda', 'NVIDIA GPU')], max_length=8)),
                ('index', models.PositiveIntegerField()),
                ('model_name', models.CharField(blank=True, max_length=120)),
                ('memory_bytes', models.BigIntegerField(default=0)),
                ('slowdown', models.FloatField(default=1.0)),
                ('uuid', models.CharField(blank=True, max_length=80)),
                ('away_since', models.DateTimeField(blank=True, null=True)),
                ('node', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='devices', to='pool.node')),
            ],
            options={
                'constraints': [models.UniqueConstraint(condition=models.Q(('away_since', None)), fields=('node', 'kind', 'index'), name='one_row_per_device')],
            },
        ),
        migrations.CreateModel(
            name='NodeAbsence',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('since', models.DateTimeField()),
                ('until', models.DateTimeField(blank=True, null=True)),
                ('node', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='absences', to='pool.node')),
            ],
            options={
                'indexes': [models.Index(fields=['node', 'until'], name='node_absence')],
            },
        ),
        migrations.CreateModel(
            name='NodeLink',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('round_trip_s', models.FloatField(blank=True, null=True)),
                ('round_trip_noise', models.FloatField(default=0.0)),
                ('bytes_per_s', models.FloatField(blank=True, null=True)),
                ('bytes_noise', models.FloatField(default=0.0)),
                ('path', models.JSONField(blank=True, default=dict)),
                ('measured_at', models.DateTimeField(blank=True, null=True)),
                ('wanted_at', models.DateTimeField(blank=True, null=True)),
                ('order', models.JSONField(blank=True, default=dict)),
                ('failures', models.PositiveSmallIntegerField(default=0)),
                ('problem', models.TextField(blank=True)),
                ('again_at', models.DateTimeField(blank=True, null=True)),
                ('first', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='pool.node')),
                ('second', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='pool.node')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('first', 'second'), name='one_link_per_pair'), models.CheckConstraint(condition=models.Q(('first', models.F('second')), _negated=True), name='link_of_two_nodes')],
            },
        ),
        migrations.CreateModel(
            name='Quota',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('device_kind', models.CharField(choices=[('cpu', 'CPU core'), ('cuda', 'NVIDIA GPU')], max_length=8)),
                ('devices', models.PositiveIntegerField()),
                ('may_borrow', models.BooleanField(default=True)),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='quotas', to='accounts.project')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('project', 'device_kind'), name='one_quota_per_kind')],
            },
        ),
        migrations.CreateModel(
            name='Reservation',
            fields=[
                ('id', models.CharField(default=harness.ids.new_id, editable=False, max_length=12, primary_key=True, serialize=False)),
                ('starts_at', models.DateTimeField()),
                ('ends_at', models.DateTimeField(db_index=True)),
                ('purpose', models.CharField(max_length=200)),
                ('open_ended', models.BooleanField(default=False)),
                ('planned_until', models.DateTimeField(blank=True, null=True)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('cancelled_at', models.DateTimeField(blank=True, null=True)),
                ('by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL)),
                ('device', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='reservations', to='pool.device')),
                ('node', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='reservations', to='pool.node')),
                ('project', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='reservations', to='accounts.project')),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('ends_at__gt', models.F('starts_at'))), name='reservation_has_length'), models.CheckConstraint(condition=models.Q(models.Q(('device__isnull', False), ('node__isnull', True)), models.Q(('device__isnull', True), ('node__isnull', False)), _connector='OR'), name='reservation_of_node_or_device')],
            },
        ),
    ]
