"""Train the model of model.py on the rows that data.py prepares, as spec.yaml says.

    python train.py                             data in ./data, everything written below ./work
    python train.py --data FOLDER --epochs 3    other data, fewer passes
    python train.py --device cuda               on a GPU
    horovodrun -np 2 python train.py            two ranks, gradients averaged by Horovod
    torchrun --nproc-per-node 2 train.py        two ranks, gradients averaged by torch.distributed

If it stops half-way (Ctrl-C, power cut), the same command continues from the newest checkpoint; `--fresh` starts over.
"""

import math

import torch
from torch.nn import functional as F

from worker.runtime import Ema, Run

run = Run.start("spec.yaml")  # device, threads, seeds, ranks; from here on every error names its file and line

import data  # noqa: E402
import model  # noqa: E402

# ---- what spec.yaml asks for -----------------------------------------------------------------------------------
spec, training = run.spec, run.spec.training
peak_rate = training.learning_rate
warm_up = training.warmup  # share of the run in which the learning rate rises
clip_norm = training.clip_norm  # longest gradient allowed; 0: any
#: if classification
label_smoothing = training.label_smoothing  # share of the target spread over all classes
#: endif

# ---- data, model, optimizer ------------------------------------------------------------------------------------
dataset = data.load(spec, run.data_folder)
spec = spec.with_shape(dataset.shape)  # classes, columns or picture size, as the training rows show them
#: if classification

class_weights = None
if training.class_weights == "balanced":  # rows of rare classes count more, so that all classes count alike
    class_rows = torch.bincount(dataset.train.targets, minlength=len(dataset.classes)).clamp(min=1)
    class_weights = (len(dataset.train) / len(dataset.classes) / class_rows).to(run.device)  # 1 for a row on average
#: endif

net = model.build(spec)
#: if pictures
net = net.to(memory_format=torch.channels_last)  # colours of a pixel side by side: convolutions are faster
#: endif
net = run.place(net, dataset)

# weight decay pulls at matrices only: biases, scales of norms and what stands for values (embeddings) need their size
SPARED = (torch.nn.Embedding, torch.nn.EmbeddingBag, torch.nn.LayerNorm, torch.nn.RMSNorm)
NAMES = (".bias",)  # of weights in model.py: how they end
#: if family.name == "ft_transformer" and not own
NAMES += (".tokens.weight",)  # each row stands for a number, as that of an embedding does for a category
#: endif
#: if family.name == "resmlp" and not own
NAMES += (".frequency",)  # of waves: what they show, not how strongly
#: endif
spared = {id(layer.weight) for layer in net.modules() if isinstance(layer, SPARED)}
spared |= {id(weight) for name, weight in net.named_parameters() if weight.ndim < 2 or f".{name}".endswith(NAMES)}
weights = [weight for weight in net.parameters() if weight.requires_grad]
matrices = [weight for weight in weights if id(weight) not in spared]
others = [weight for weight in weights if id(weight) in spared]
groups = [{"params": matrices, "weight_decay": training.weight_decay}, {"params": others, "weight_decay": 0.0}]
if training.optimizer == "sgd":
    optimizer = torch.optim.SGD(groups, lr=peak_rate, momentum=0.9, nesterov=True)
else:
    optimizer = torch.optim.AdamW(groups, lr=peak_rate, betas=(0.9, 0.99), fused=True)
ema = Ema(net, training.ema) if training.ema else None  # running average of the weights


def criterion(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The loss of some rows, a mean over them: a batch may come in parts, each weighted by its rows."""
    #: if classification
    if class_weights is None:
        return F.cross_entropy(outputs, targets, label_smoothing=label_smoothing)
    losses = F.cross_entropy(outputs, targets, label_smoothing=label_smoothing, reduction="none")
    return (losses * class_weights[targets]).mean()  # over rows: a sum of weights would differ from part to part
    #: else
    return F.mse_loss(outputs.squeeze(1), targets)
    #: endif


def learning_rate(done: float) -> float:
    """Rate after the share `done` (0 to 1) of the run: a linear warm-up, then half a cosine down to zero."""
    if done < warm_up:
        return peak_rate * done / warm_up
    if training.schedule == "constant":
        return peak_rate
    return peak_rate * 0.5 * (1.0 + math.cos(math.pi * (done - warm_up) / (1.0 - warm_up)))


# ---- training --------------------------------------------------------------------------------------------------
run.restore(net=net, optimizer=optimizer, ema=ema)  # from the newest good checkpoint, if there is one
for _epoch in run.epochs():
    net.train()
    for inputs, targets in run.batches(dataset.train):
        #: if pictures
        inputs = data.augment(inputs, training.augment, run.generator)
        #: endif
        rate = learning_rate(run.done)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad(set_to_none=True)
        loss = run.backward(net, inputs, targets, criterion)  # at once, in micro-batches or in stages
        run.average_gradients(loss)  # over the ranks; one rank has nothing to average
        if clip_norm:
            run.clip_gradients(net, clip_norm)
        run.update(optimizer)  # here, or at the parameter servers
        if ema:
            ema.update(net)
        run.log_step(loss, learning_rate=rate)
    run.log_epoch(run.evaluate(ema.net if ema else net, dataset))  # may end the run early (`patience`)
    run.checkpoint()  # every few epochs or minutes, and when this epoch was the best so far

run.finish(dataset)  # the best weights on all parts: results, predictions, model.safetensors
