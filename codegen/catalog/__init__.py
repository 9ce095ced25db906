"""The model families, one module each, and which data template serves which task."""

from __future__ import annotations

from codegen.catalog import cnn, convnext, ft_transformer, mlp, own, resmlp, resnet
from codegen.catalog.base import Cost, Facts, Family, Knob
from codegen.spec import Task

FAMILIES: dict[str, Family] = {
    module.FAMILY.name: module.FAMILY for module in (mlp, resmlp, ft_transformer, cnn, resnet, convnext, own)
}
OWN = own.FAMILY.name

DATA_TEMPLATES: dict[Task, str] = {
    Task.TABULAR_CLASSIFICATION: "data_tabular.py",
    Task.TABULAR_REGRESSION: "data_tabular.py",
    Task.FORECAST: "data_tabular.py",
    Task.IMAGE_CLASSIFICATION: "data_images.py",
}


def families_for(task: Task) -> list[Family]:
    """The families that are suggested for a task, without a person's own."""
    return [family for family in FAMILIES.values() if task in family.tasks and family.name != OWN]


__all__ = ["DATA_TEMPLATES", "FAMILIES", "OWN", "Cost", "Facts", "Family", "Knob", "families_for"]
