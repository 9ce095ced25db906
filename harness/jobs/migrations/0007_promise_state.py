from django.db import migrations

# Sentences by which states were told apart until now, and what is said in their place. A reason may follow.
SENTENCES = {
    "no_estimate": (
        "Nobody has estimated how long it takes, so its finish cannot be promised; it is tried as well as it goes.",
        "There is no estimate of how long it takes, so its finish cannot be promised; it will run as soon as possible.",
    ),
    "to_be_measured": (
        "Its program cannot be read without running it: as soon as a device is idle, a few of its steps are made "
        "there. Then its finish is promised, or you are told here why not.",
        "Its program cannot be read without running it, so a few of its steps will run on the first idle device. "
        "Then its finish will be promised, or you will be told here why not.",
    ),
    "being_measured": (
        "Its time is being measured: an idle device makes a few of its steps. "
        "Then its finish is promised, or you are told here why not.",
        "Its run time is being measured: an idle device is running a few of its steps. "
        "Then its finish will be promised, or you will be told here why not.",
    ),
    "not_measured": (
        "Its time could not be measured, so its finish cannot be promised; it is tried as well as it goes.",
        "Its run time could not be measured, so its finish cannot be promised; it will run as soon as possible.",
    ),
    "started_unmeasured": (
        "It started before its time was measured. As soon as its own pace tells how long it takes, its finish is "
        "promised if it can be.",
        "It started before its run time was measured. Once its own pace shows how long it takes, its finish will be "
        "promised if it can be kept.",
    ),
}
UNWANTED, NOT_WANTED = {"wanted": False}, {"state": "not_wanted", "text": ""}


def _with_state(promise: dict, *, promised: bool) -> dict:
    if "state" in promise:
        return promise
    if promise == UNWANTED:
        return NOT_WANTED
    text = promise.get("text", "")
    if promised:
        return {**promise, "state": "promised"}
    for state, (old, new) in SENTENCES.items():
        if text.startswith(old):
            return {**promise, "state": state, "text": new + text.removeprefix(old)}
    return {**promise, "state": "not_promised"}


def _without_state(promise: dict) -> dict:
    if promise == NOT_WANTED:
        return UNWANTED
    kept = {name: value for name, value in promise.items() if name != "state"}
    if promise.get("state") in SENTENCES:
        old, new = SENTENCES[promise["state"]]
        text = kept.get("text", "")
        kept["text"] = old + (text.removeprefix(new) if text.startswith(new) else "")
    return kept


def _jobs(apps, editor):
    """Those of whose promise something is said."""
    rows = apps.get_model("jobs", "Job").objects.using(editor.connection.alias)
    return rows.exclude(promise={}).only("promise", "promised_at")


def name_states(apps, editor) -> None:
    for job in _jobs(apps, editor):
        job.promise = _with_state(job.promise, promised=job.promised_at is not None)
        job.save(update_fields=["promise"])


def forget_states(apps, editor) -> None:
    for job in _jobs(apps, editor):
        job.promise = _without_state(job.promise)
        job.save(update_fields=["promise"])


class Migration(migrations.Migration):

    dependencies = [
        ("jobs", "0006_export_checkpoint"),
    ]

    operations = [migrations.RunPython(name_states, forget_states)]
