import django.db.models.deletion
import harness.ids
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    replaces = [
        ('estimates', '0001_initial'),
        ('estimates', '0002_probe_project'),
        ('estimates', '0003_probe_looks'),
        ('estimates', '0004_untested_steps'),
        ('estimates', '0005_probe_power'),
        ('estimates', '0006_offer_problem'),
    ]

    initial = True

    dependencies = [
        ('accounts', '0001_initial'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ('jobs', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='Inspection',
            fields=[
                ('id', models.CharField(default=harness.ids.new_id, editable=False, max_length=12, primary_key=True, serialize=False)),
                ('key', models.CharField(max_length=64, unique=True)),
                ('dataset_sha256', models.CharField(max_length=64)),
                ('minimum_sandbox_level', models.SmallIntegerField(default=0)),
                ('state', models.CharField(choices=[('waiting', 'A node works on it'), ('done', 'Answered'), ('failed', 'Answered with a problem, or not at all')], default='waiting', max_length=8)),
                ('workload', models.JSONField(blank=True, null=True)),
                ('problem', models.JSONField(blank=True, null=True)),
                ('trace_s', models.FloatField(blank=True, null=True)),
                ('sent_at', models.DateTimeField()),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('finished_at', models.DateTimeField(blank=True, null=True)),
            ],
        ),
        migrations.CreateModel(
            name='OfferRow',
            fields=[
                ('id', models.CharField(default=harness.ids.new_id, editable=False, max_length=12, primary_key=True, serialize=False)),
                ('title', models.CharField(blank=True, max_length=160)),
                ('state', models.CharField(choices=[('waiting', 'A node reads the program'), ('ready', 'Priced'), ('failed', 'Its program cannot be read without running it, or it could not be priced'), ('accepted', 'A person took one of its lines')], default='waiting', max_length=8)),
                ('deadline_at', models.DateTimeField(blank=True, null=True)),
                ('wish', models.JSONField(blank=True, default=dict)),
                ('memory_bytes', models.BigIntegerField(default=0)),
                ('untested_steps', models.FloatField(blank=True, null=True)),
                ('workload', models.JSONField(blank=True, null=True)),
                ('body', models.JSONField(blank=True, default=dict)),
                ('notes', models.JSONField(blank=True, default=list)),
                ('problem', models.JSONField(blank=True, null=True)),
                ('priced_s', models.FloatField(blank=True, null=True)),
                ('accepted', models.JSONField(blank=True, default=dict)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('made_at', models.DateTimeField(blank=True, null=True)),
                ('inspection', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='offers', to='estimates.inspection')),
                ('job', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='offers', to='jobs.job')),
                ('owner', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='offers', to=settings.AUTH_USER_MODEL)),
                ('project', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='offers', to='accounts.project')),
            ],
            options={
                'indexes': [models.Index(fields=['job', '-created_at'], name='estimates_o_job_id_59816b_idx')],
            },
        ),
        migrations.CreateModel(
            name='JobEstimate',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('inspection_key', models.CharField(max_length=64)),
                ('estimate', models.JSONField()),
                ('ways', models.JSONField(blank=True, default=list)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('job', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='estimate', to='jobs.job')),
                ('offer', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='estimates.offerrow')),
            ],
        ),
        migrations.CreateModel(
            name='ProbeRow',
            fields=[
                ('id', models.CharField(default=harness.ids.new_id, editable=False, max_length=12, primary_key=True, serialize=False)),
                ('kind', models.CharField(max_length=8)),
                ('model_name', models.CharField(blank=True, max_length=120)),
                ('node_name', models.CharField(max_length=60)),
                ('state', models.CharField(choices=[('waiting', 'A node works on it'), ('done', 'Answered'), ('failed', 'Answered with a problem, or not at all')], default='waiting', max_length=8)),
                ('allocation', models.JSONField()),
                ('step_s', models.JSONField(blank=True, default=list)),
                ('first_look', models.JSONField(blank=True, default=dict)),
                ('left_out_s', models.JSONField(blank=True, default=list)),
                ('peak_bytes', models.BigIntegerField(blank=True, null=True)),
                ('power_w', models.FloatField(blank=True, null=True)),
                ('row_s', models.JSONField(blank=True, default=dict)),
                ('workload', models.JSONField(blank=True, null=True)),
                ('opaque', models.BooleanField(default=False)),
                ('problem', models.JSONField(blank=True, null=True)),
                ('reservation', models.CharField(blank=True, max_length=40)),
                ('sent_at', models.DateTimeField(auto_now_add=True)),
                ('finished_at', models.DateTimeField(blank=True, null=True)),
                ('inspection', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='probes', to='estimates.inspection')),
                ('project', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='accounts.project')),
            ],
        ),
    ]
