from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('estimates', '0008_estimate_made'),
    ]

    operations = [
        migrations.AddField(
            model_name='proberow',
            name='batch_size',
            field=models.PositiveIntegerField(default=0),
        ),
        migrations.AddField(
            model_name='proberow',
            name='sums',
            field=models.JSONField(blank=True, default=dict),
        ),
    ]
