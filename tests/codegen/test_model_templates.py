"""Model templates: exact parameter counts, FLOPs as torch counts them, shapes, gradients, learning."""

from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from codegen.catalog import families_for
from codegen.catalog.base import SIZES, Facts
from codegen.spec import Task
from tests.codegen.programs import module, program_spec

ROWS = 4
TABLES = {
    "mixed": Facts(
        task=Task.TABULAR_CLASSIFICATION, rows=6000, train_rows=4200, outputs=3, features=7, cardinalities=(3, 9, 41)
    ),
    "numbers": Facts(task=Task.TABULAR_REGRESSION, rows=600, train_rows=420, outputs=1, features=5),
    "categories": Facts(
        task=Task.TABULAR_CLASSIFICATION, rows=90_000, train_rows=63_000, outputs=2, cardinalities=(2, 10_001)
    ),
}
PICTURES = {
    f"{size}px-{channels}ch": Facts(
        task=Task.IMAGE_CLASSIFICATION,
        rows=6000,
        train_rows=4200,
        outputs=10,
        channels=channels,
        native_size=size,
        device="cuda",
    )
    for size, channels in ((8, 1), (29, 3), (32, 3), (100, 3))
}
CASES = [
    pytest.param(family, facts, id=f"{family.name}-{name}")
    for task, cases in ((Task.TABULAR_CLASSIFICATION, TABLES), (Task.IMAGE_CLASSIFICATION, PICTURES))
    for family in families_for(task)
    for name, facts in cases.items()
]


def spec_of(facts: Facts, params: dict):
    size = params.get("image_size")
    shape = {
        "features": [f"x{index}" for index in range(facts.features)],
        "cardinalities": list(facts.cardinalities),
        "outputs": facts.outputs,
        "channels": facts.channels,
        "height": size,
        "width": size,
        "channel_mean": [0.5] * facts.channels,
        "channel_std": [0.2] * facts.channels,
    }
    return program_spec({"model": {"params": params}, "shape": shape})


def inputs_of(facts: Facts, params: dict, device: str = "cpu", rows: int = ROWS) -> tuple[torch.Tensor, ...]:
    if facts.images:
        size = params["image_size"]
        return (torch.zeros(rows, facts.channels, size, size, dtype=torch.uint8, device=device),)
    numeric = torch.zeros(rows, facts.features, device=device)
    return numeric, torch.zeros(rows, len(facts.cardinalities), dtype=torch.int64, device=device)


@pytest.mark.parametrize(("family", "facts"), CASES)
@pytest.mark.parametrize("size", SIZES)
def test_analytic_counts_equal_the_real_module(family, facts, size):
    params = family.defaults(facts, size)
    cost = family.cost(facts, params)
    with torch.device("meta"):
        net = module(f"models/{family.template}").build(spec_of(facts, params)).eval()
    assert sum(weight.numel() for weight in net.parameters()) == cost.parameters
    counter = FlopCounterMode(display=False)
    with counter:
        net(*inputs_of(facts, params, "meta"))
    assert cost.flops == pytest.approx(counter.get_total_flops() / ROWS, rel=0.05)


@pytest.mark.parametrize("family", families_for(Task.IMAGE_CLASSIFICATION), ids=lambda family: family.name)
@pytest.mark.parametrize(
    "knob", ["conv_layers", "filters", "kernel", "fc_layers", "fc_nodes", "blocks", "width", "patch"]
)
def test_counts_follow_each_knob(family, knob):
    facts = PICTURES["32px-3ch"]
    params = family.defaults(facts, "small")
    if knob not in params:
        return
    for step in (1, 2):
        varied = {**params, knob: params[knob] + step}
        with torch.device("meta"):
            net = module(f"models/{family.template}").build(spec_of(facts, varied))
        assert sum(weight.numel() for weight in net.parameters()) == family.cost(facts, varied).parameters


@pytest.mark.parametrize(("family", "facts"), CASES)
def test_a_small_model_answers_and_learns_in_every_weight(family, facts):
    params = family.defaults(facts, "small")
    torch.manual_seed(0)
    net = module(f"models/{family.template}").build(spec_of(facts, params))
    inputs = inputs_of(facts, params)
    if facts.images:
        inputs = (torch.randint(0, 256, inputs[0].shape, dtype=torch.uint8),)
    else:
        inputs = (torch.randn(inputs[0].shape), inputs[1])
    logits = net(*inputs)
    assert logits.shape == (ROWS, facts.outputs)
    assert torch.isfinite(logits).all()
    logits.square().sum().backward()
    assert all(weight.grad is not None for weight in net.parameters())


@pytest.mark.parametrize(("family", "facts"), CASES)
def test_one_row_can_be_predicted(family, facts):
    params = family.defaults(facts, "small")
    net = module(f"models/{family.template}").build(spec_of(facts, params)).eval()
    assert net(*inputs_of(facts, params, rows=1)).shape == (1, facts.outputs)


@pytest.mark.parametrize("family", families_for(Task.TABULAR_CLASSIFICATION), ids=lambda family: family.name)
def test_a_table_model_can_learn_a_few_rows_by_heart(family):
    facts = TABLES["mixed"]
    params = {**family.defaults(facts, "small"), "dropout": 0.0}
    torch.manual_seed(0)
    net = module(f"models/{family.template}").build(spec_of(facts, params))
    numeric = torch.randn(24, facts.features)
    categorical = torch.stack([torch.randint(0, size, (24,)) for size in facts.cardinalities], dim=1)
    targets = torch.randint(0, facts.outputs, (24,))
    optimizer = torch.optim.AdamW(net.parameters(), lr=5e-3)
    for _ in range(150):
        loss = torch.nn.functional.cross_entropy(net(numeric, categorical), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert (net(numeric, categorical).argmax(dim=1) == targets).all()


@pytest.mark.parametrize("family", families_for(Task.TABULAR_CLASSIFICATION), ids=lambda family: family.name)
def test_a_value_never_seen_says_nothing_unless_training_rows_teach_what_it_means(family):
    """Untrained, an embedding drawn at random would answer as for some other category."""
    facts = TABLES["mixed"]
    params = family.defaults(facts, "small")
    net = module(f"models/{family.template}").build(spec_of(facts, params))
    embeddings = [part.weight for part in net.modules() if isinstance(part, torch.nn.Embedding)]
    assert len(embeddings) == len(facts.cardinalities)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2, weight_decay=0.1)
    for seen in ([1, 2, 2], [0, 1, 1]):
        categorical = torch.tensor([seen] * ROWS)
        optimizer.zero_grad()
        net(torch.randn(ROWS, facts.features), categorical)[:, 0].sum().backward()
        optimizer.step()
        assert [weight[0].any().item() for weight in embeddings] == [value == 0 for value in seen]
