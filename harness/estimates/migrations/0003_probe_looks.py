from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('estimates', '0002_probe_project'),
    ]

    operations = [
        migrations.AddField(
            model_name='proberow',
            name='first_look',
            field=models.JSONField(blank=True, default=dict),
        ),
        migrations.AddField(
            model_name='proberow',
            name='left_out_s',
            field=models.JSONField(blank=True, default=list),
        ),
    ]
