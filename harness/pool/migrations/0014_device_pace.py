from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('pool', '0001_squashed_0013_planned_until'),
    ]

    operations = [
        migrations.AddField(
            model_name='device',
            name='pace',
            field=models.FloatField(default=1.0),
        ),
        migrations.AddField(
            model_name='device',
            name='paced_at',
            field=models.DateTimeField(blank=True, null=True),
        ),
    ]
