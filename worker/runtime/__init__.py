"""The small library that generated programs import; runs on the pool and off it."""

from worker.loading import loading

with loading():
    from worker.runtime.data import DataError, Dataset, Part
    from worker.runtime.ema import Ema
    from worker.runtime.run import Run
    from worker.runtime.spec import Spec, load_spec

__all__ = ["DataError", "Dataset", "Ema", "Part", "Run", "Spec", "load_spec"]
