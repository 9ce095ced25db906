from django.db import migrations

HOSTS, VXLAN = "hosts", "vxlan"


def _named(path: dict) -> dict:
    """The path with what the network is, where it had whether there was one: until now none was encrypted."""
    if "own_network" not in path:
        return path
    kept = {name: value for name, value in path.items() if name != "own_network"}
    return {**kept, "network": VXLAN if path["own_network"] else HOSTS}


def _unnamed(path: dict) -> dict:
    if "network" not in path:
        return path
    kept = {name: value for name, value in path.items() if name != "network"}
    return {**kept, "own_network": path["network"] != HOSTS}


def _change(links, changed) -> None:
    """In what was timed; what nodes were asked meanwhile is given up, and asked again."""
    for link in links.all():
        link.path, link.order = changed(link.path), {}
        link.save(update_fields=["path", "order"])


def name_networks(apps, editor) -> None:
    _change(apps.get_model("pool", "NodeLink").objects.using(editor.connection.alias), _named)


def forget_names(apps, editor) -> None:
    _change(apps.get_model("pool", "NodeLink").objects.using(editor.connection.alias), _unnamed)


class Migration(migrations.Migration):

    dependencies = [
        ("pool", "0008_node_link"),
    ]

    operations = [migrations.RunPython(name_networks, forget_names)]
