from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('rates', '0001_initial'),
    ]

    operations = [
        migrations.AddField(
            model_name='ratetest',
            name='trials',
            field=models.JSONField(blank=True, null=True),
        ),
    ]
