"""Charts of a results.json, one of every kind, in the shapes that the runtime writes."""

from __future__ import annotations

import math
from typing import Any


def charts_make(classes: list[str]) -> list[dict[str, Any]]:
    curve = [step / 40 for step in range(41)]
    return [
        {"id": "confusion_matrix", "title": "Confusion matrix", "kind": "confusion", "split": "test", "note": "",
         "columns": ["true \\ predicted", *classes],
         "rows": [[name, *(60 if a == b else (a + 2 * b) % 4 for b in range(len(classes)))]
                  for a, name in enumerate(classes)]},
        {"id": "roc", "title": "ROC", "kind": "curve", "split": "test", "note": "Thinned to 41 points per class.",
         "columns": ["class", "fpr", "tpr", "threshold"],
         "rows": [[name, x, x ** (0.08 + 0.05 * at), 1 - x] for at, name in enumerate(classes) for x in curve]},
        {"id": "pr", "title": "Precision and recall", "kind": "curve", "split": "test", "note": "",
         "columns": ["class", "recall", "precision", "threshold"],
         "rows": [[name, x, 1 - 0.2 * x ** (6 - at), 1 - x] for at, name in enumerate(classes) for x in curve]},
        {"id": "calibration", "title": "Calibration", "kind": "curve", "split": "test", "note": "",
         "columns": ["bin", "confidence", "accuracy", "rows"],
         "rows": [[f"{x / 10:.1f}", x / 10, (x / 10) ** 1.2, 20] for x in range(1, 11)]},
        {"id": "residuals", "title": "Residuals", "kind": "histogram", "split": "test", "note": "",
         "columns": ["from", "to", "rows"],
         "rows": [[x - 10.5, x - 9.5, round(90 * math.exp(-((x - 10) ** 2) / 14))] for x in range(21)]},
        {"id": "predicted_vs_true", "title": "Predicted and true", "kind": "scatter", "split": "test",
         "note": "A sample of 200 of 900 rows.", "columns": ["true", "predicted"],
         "rows": [[x / 10, x / 10 + math.sin(x * 3) * 1.4] for x in range(200)]},
        {"id": "per_class", "title": "Per class", "kind": "table", "split": "test", "note": "",
         "columns": ["class", "precision", "recall", "f1", "rows"],
         "rows": [[name, 0.95 + at / 100, 0.94, 0.945, 60 + at] for at, name in enumerate(classes)]},
        {"id": "error_by_feature", "title": "Accuracy by group", "kind": "intervals", "split": "test", "overall": 0.95,
         "note": "95 % intervals; the groups that are surely worst come first. Over all rows the accuracy is 0.95.",
         "columns": ["feature", "values", "accuracy", "low", "high", "rows"],
         "rows": [["brightness", f"{at}0 to {at + 1}0", 0.8 + at / 60, 0.74 + at / 60, 0.85 + at / 80, 40 + at]
                  for at in range(14)]},
        {"id": "importance", "title": "Importance of inputs", "kind": "intervals", "split": "test", "overall": 0.0,
         "note": "How much worse the accuracy gets when the values of one input are shuffled among 400 rows.",
         "columns": ["input", "importance", "low", "high"],
         "rows": [["weight", 0.31, 0.28, 0.34], ["colour", 0.12, 0.1, 0.14],
                  ["a name as long as headers are", 0, -0.01, 0.01]]},
        {"id": "worst_samples", "title": "Worst samples", "kind": "samples", "split": "test", "note": "",
         "columns": ["row", "name", "true", "predicted", "confidence"],
         "rows": [[row, f"{row}.png", classes[row % 4], classes[(row + 1) % 4], 0.99 - row / 90] for row in range(8)]},
    ]  # fmt: skip
