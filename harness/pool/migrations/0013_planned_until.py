from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('pool', '0012_open_ended'),
    ]

    operations = [
        migrations.AddField(
            model_name='reservation',
            name='planned_until',
            field=models.DateTimeField(blank=True, null=True),
        ),
    ]
