"""Backups in the chart: by the clock into a volume of their own, and back while nothing else works on the store."""

import pytest

from tests.deploy import chart

CLOCK = {"schedule": "30 2 * * *", "size": "200Gi", "storageClass": "other"}
BACK = {"existingClaim": "safe", "restore": "dlh-20270101-023000.dlh"}


def rendered(backup):
    return chart.render({**chart.GIVEN, "backup": backup})


def accepts(backup):
    import helm_python

    with helm_python.Chart.load(str(chart.CHART)) as loaded:
        try:
            loaded.validate_schema(loaded.merge_values({**chart.GIVEN, "backup": backup}))
        except helm_python.HelmError:
            return False
    return True


def cron_job(objects):
    return chart.of_kind("CronJob", objects)["prod-dlh-backup"]


def test_unless_asked_for_no_object_of_the_chart_knows_of_backups():
    assert "backup" not in str(chart.objects())


@pytest.mark.parametrize("version", chart.KUBERNETES)
@pytest.mark.parametrize("backup", [CLOCK, BACK])
def test_every_object_with_it_fits_the_schema_of_kubernetes(version, backup):
    import kubernetes_validate

    for body in rendered(backup):
        kubernetes_validate.validate(body, version, strict=True)


@pytest.mark.parametrize("backup", [CLOCK, BACK])
def test_the_linter_finds_nothing(backup):
    import helm_python

    told = helm_python.lint(str(chart.CHART), {**chart.GIVEN, "backup": backup}, strict=True)
    assert not told["errors"]
    assert not [message for message in told["messages"] if message["severity"] >= 2]


def test_a_backup_is_made_by_the_clock_one_at_a_time_and_the_newest_are_kept():
    made = rendered({**CLOCK, "keep": 3})
    body = cron_job(made)["spec"]
    assert (body["schedule"], body["concurrencyPolicy"]) == ("30 2 * * *", "Forbid")
    spec = body["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert container["args"] == ["backup", "/backups", "--keep", "3"]
    assert chart.mounts(spec)["backups"] == {"name": "backups", "mountPath": "/backups", "readOnly": False}
    claim = chart.of_kind("PersistentVolumeClaim", made)["prod-dlh-backups"]
    assert claim["spec"]["resources"]["requests"]["storage"] == "200Gi"
    assert claim["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    assert chart.volume(spec, "backups")["persistentVolumeClaim"]["claimName"] == "prod-dlh-backups"
    assert chart.of_kind("Deployment", made)["prod-dlh-portal"]["spec"]["replicas"] == 2


def test_a_pod_of_backups_sees_what_prepare_sees_and_has_no_more_rights():
    prepare = chart.pods()["prod-dlh-prepare-1"]
    backup = cron_job(rendered(CLOCK))["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    restore = chart.of_kind("Job", rendered(BACK))["prod-dlh-restore-backup"]["spec"]["template"]["spec"]
    for spec in (backup, restore):
        assert spec["securityContext"] == prepare["securityContext"]
        assert spec["automountServiceAccountToken"] is False
        (container,), (other,) = spec["containers"], prepare["containers"]
        assert container["securityContext"] == other["securityContext"] and container["image"] == other["image"]
        assert chart.volume(spec, "secrets") == chart.volume(prepare, "secrets")
        assert chart.volume(spec, "store") == chart.volume(prepare, "store")


def test_while_a_backup_is_brought_back_nothing_else_works_on_the_store():
    made = rendered({**BACK, "schedule": "30 2 * * *"})
    spec = chart.of_kind("Job", made)["prod-dlh-restore-backup"]["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert container["args"] == ["restore", "/backups/dlh-20270101-023000.dlh"]
    assert chart.mounts(spec)["backups"]["readOnly"] is True
    assert chart.volume(spec, "backups")["persistentVolumeClaim"]["claimName"] == "safe"
    assert list(chart.of_kind("Job", made)) == ["prod-dlh-restore-backup"]
    assert not chart.of_kind("CronJob", made)
    assert [body["spec"]["replicas"] for body in chart.of_kind("Deployment", made).values()] == [0, 0]
    assert not [name for name in chart.of_kind("PersistentVolumeClaim", made) if "backup" in name]


def test_the_parts_are_commands_that_exist_and_get_what_they_ask_for():
    from harness.stack.part import REQUIRED

    backup = cron_job(rendered(CLOCK))["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    restore = chart.of_kind("Job", rendered(BACK))["prod-dlh-restore-backup"]["spec"]["template"]["spec"]
    for spec in (backup, restore):
        (container,) = spec["containers"]
        given = {item["name"].removesuffix("_FILE") for item in container["env"]}
        assert set(REQUIRED[container["args"][0]]) <= given | {"DLH_STORE"}


DAILY = {"schedule": "@daily", "existingClaim": "safe"}


@pytest.mark.parametrize("backup", [{}, CLOCK, BACK, {**BACK, **CLOCK}, DAILY])
def test_the_whole_setting_is_taken(backup):
    assert accepts(backup)


@pytest.mark.parametrize(
    "wrong",
    [
        {"schedule": "30 2 * * *"},
        {"restore": "monday.dlh"},
        {**CLOCK, "schedule": "every night"},
        {**CLOCK, "keep": 0},
        {**BACK, "restore": "../monday.dlh"},
        {**BACK, "restore": "a/b.dlh"},
        {**CLOCK, "claim": "safe"},
    ],
)
def test_half_a_setting_and_misspelt_ones_are_refused(wrong):
    assert not accepts(wrong)
