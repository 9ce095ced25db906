from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('pool', '0015_idle_power'),
    ]

    operations = [
        migrations.AddField(
            model_name='node',
            name='agent_left',
            field=models.CharField(blank=True, max_length=32),
        ),
    ]
