from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('estimates', '0005_probe_power'),
    ]

    operations = [
        migrations.AddField(
            model_name='offerrow',
            name='problem',
            field=models.JSONField(blank=True, null=True),
        ),
        migrations.AlterField(
            model_name='offerrow',
            name='state',
            field=models.CharField(choices=[('waiting', 'A node reads the program'), ('ready', 'Priced'), ('failed', 'Its program cannot be read without running it, or it could not be priced'), ('accepted', 'A person took one of its lines')], default='waiting', max_length=8),
        ),
    ]
