from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('estimates', '0005_probe_power'),
    ]

    operations = [
        migrations.AddField(
            model_name='offerrow',
            name='shown_at',
            field=models.DateTimeField(blank=True, null=True),
        ),
    ]
