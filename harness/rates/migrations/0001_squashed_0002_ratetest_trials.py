import django.db.models.deletion
import harness.ids
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    replaces = [
        ('rates', '0001_initial'),
        ('rates', '0002_ratetest_trials'),
    ]

    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ('jobs', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='RateTest',
            fields=[
                ('id', models.CharField(default=harness.ids.new_id, editable=False, max_length=12, primary_key=True, serialize=False)),
                ('state', models.CharField(choices=[('waiting', 'A node works on it'), ('done', 'Answered'), ('failed', 'Answered with a problem, or not at all')], default='waiting', max_length=8)),
                ('progress', models.FloatField(default=0.0)),
                ('wish', models.JSONField(blank=True, default=dict)),
                ('program_key', models.CharField(blank=True, max_length=64)),
                ('batch_size', models.PositiveIntegerField(default=1)),
                ('rate', models.FloatField(blank=True, null=True)),
                ('optimizer', models.CharField(blank=True, max_length=40)),
                ('kind', models.CharField(blank=True, max_length=8)),
                ('model_name', models.CharField(blank=True, max_length=120)),
                ('node_name', models.CharField(blank=True, max_length=60)),
                ('reservation', models.CharField(blank=True, max_length=40)),
                ('record', models.JSONField(blank=True, null=True)),
                ('found', models.JSONField(blank=True, null=True)),
                ('trials', models.JSONField(blank=True, null=True)),
                ('rules', models.JSONField(blank=True, default=dict)),
                ('problem', models.JSONField(blank=True, null=True)),
                ('submit', models.BooleanField(default=False)),
                ('used_rate', models.FloatField(blank=True, null=True)),
                ('took_s', models.FloatField(blank=True, null=True)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('sent_at', models.DateTimeField(blank=True, null=True)),
                ('finished_at', models.DateTimeField(blank=True, null=True)),
                ('by', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('job', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='rate_tests', to='jobs.job')),
            ],
            options={
                'indexes': [models.Index(fields=['job', '-created_at'], name='rates_ratet_job_id_0afa7f_idx')],
            },
        ),
    ]
