"""Two synchronous ranks against torch DDP and one process, in turns: `python -m tests.benchmarks.modes_sync`.

As `bench_ranks`, with the bars of the modes (0.97 of DDP, efficiency 0.88), and with the twin backend and 16-bit
messages beside it. JSON comes last.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
from pathlib import Path

from tests.benchmarks.bench_ranks import ROLES, pictures, run_role
from tests.worker.runtime import samples

DDP_BAR, EFFICIENCY_BAR = 0.97, 0.88


def main() -> None:
    """Launch the roles in turns and print medians, ratios and one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch", type=int, default=128)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        program, rounded = Path(folder, "plain"), Path(folder, "rounded")
        model = {"family": "cnn", "params": {"conv_layers": 4, "filters": 32, "image_size": 32}}
        training = {"epochs": 1000, "batch_size": options.batch, "patience": 0, "augment": "none", "ema": 0}
        profile = pictures(program / "data", 20 * options.batch)
        samples.program(program, profile, model=model, training=training)
        shutil.copytree(program, rounded)
        samples.change_spec(rounded, training={"compression": "fp16"})
        rounds = []
        for number in range(options.rounds):
            times = {role: run_role(role, program, options.steps)["step_s"] for role in ROLES}
            times["fp16"] = run_role("horovod", rounded, options.steps)["step_s"]
            rounds.append(times)
            shown = "  ".join(f"{role} {step_s * 1e3:.1f} ms/step" for role, step_s in times.items())
            print(f"round {number}: {shown}", flush=True)
    wall_s = {role: statistics.median(times[role] for times in rounds) for role in rounds[0]}
    against_ddp, efficiency = wall_s["ddp"] / wall_s["horovod"], wall_s["single"] / wall_s["horovod"] / 2
    allowed = wall_s["single"] / wall_s["apart"]
    print(f"sync against DDP {against_ddp:.3f} (bar {DDP_BAR})")
    print(f"efficiency {efficiency:.3f} (bar {EFFICIENCY_BAR}); two processes that share nothing reach {allowed:.3f}")
    body = {"against_ddp": against_ddp, "efficiency": efficiency, "machine_efficiency": allowed}
    body |= {"step_s": wall_s, "rounds": rounds}
    met = against_ddp >= DDP_BAR and efficiency >= EFFICIENCY_BAR
    print(json.dumps({"benchmark": "modes_sync", "met": met, "cores": os.cpu_count(), **body}))


if __name__ == "__main__":
    main()
