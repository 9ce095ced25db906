"""Say what the trained model makes of new data.

#: if pictures
    python predict.py --input picture.png --output predictions.csv
    python predict.py --input pictures.zip --output predictions.json     also writes predictions.csv
    python predict.py --input picture.png --output predictions.csv --weights work/checkpoints/step-00000100
#: elif forecast
    python predict.py --output forecast.csv                       from the end of the data on
    python predict.py --input rows.csv --output forecast.csv      from the end of newer rows
    python predict.py --output forecast.json                      also writes forecast.csv
    python predict.py --output forecast.csv --weights work/checkpoints/step-00000100
#: else
    python predict.py --input rows.csv --output predictions.csv          rows.csv with the answer added; also .tsv,
                                                                         .jsonl, .parquet
    python predict.py --input rows.csv --output predictions.json         also writes predictions.csv, a table of its
                                                                         own, and predictions-answered.csv
    python predict.py --input rows.csv --output predictions.csv --weights work/checkpoints/step-00000100
#: endif
#: if classification

`--threshold CLASS=P` calls by CLASS whatever is of it with a probability of P or more, such as a rare one from 0.3 on.
#: endif

#: if forecast
Newer rows follow on those of the data, with the same columns. `low` and `high` are the ends of a range that held the
true value of nine in ten forecasts; of a checkpoint (`--weights`), and where the data had too few rows, they are left
out.

#: elif not classification
`prediction_low` and `prediction_high` are the ends of a range that holds the true value of nine in ten rows like those
of the data; of a checkpoint (`--weights`), and where the data had too few rows, they are left out.

#: endif
Without `--weights` the best weights of the run are used: work/results/model.safetensors. It computes on the CPU.
"""

import argparse
from pathlib import Path

import data
import model
import torch

from worker.runtime import load_spec, serving


def main(options: argparse.Namespace) -> None:
    """Read, predict, write."""
    preprocess = serving.read_preprocess(options.weights)
    spec = load_spec("spec.yaml").with_shape(preprocess["shape"])
    net = model.build(spec).eval()
    serving.load_weights(net, options.weights)

    #: if pictures
    label = "name"
    notes = []  # what a person should know of the answer
    unread = []  # broken pictures of a zip, and why
    names, pictures = serving.read_pictures(options.input, unread)
    chunks = serving.picture_inputs(data.transform, preprocess, pictures)
    #: elif forecast
    about, notes = preprocess["forecast"], []  # notes: how values were read that could be taken for a mistake
    newer = serving.read_series(about, options.input, notes.append) if options.input else None
    inputs, base, names, past = serving.series_coming(data.history.coming, about, newer, notes.append)
    serving.planned_tell(preprocess, inputs, names, notes.append)
    chunks = [data.transform(preprocess, inputs)]
    #: else
    label = "row"
    table = serving.read_rows(options.input, preprocess)
    names = range(1, table.num_rows + 1)
    notes = []  # how values were read that could be taken for a mistake
    chunks = serving.table_inputs(data.transform, preprocess, table, tell=notes.append)
    #: endif
    with torch.no_grad():
        outputs = torch.cat([net(*inputs).double() for inputs in chunks])

    #: if classification
    classes = preprocess["classes"]
    probabilities = outputs.softmax(1)
    best = serving.answers(probabilities, classes, options.threshold).tolist()
    notes += serving.threshold_said(options.threshold)
    columns = [label, "prediction", "confidence", *(f"probability of {name}" for name in classes)]
    rows = [
        [name, classes[number], shares[number], *shares]
        for name, number, shares in zip(names, best, probabilities.tolist(), strict=True)
    ]
    #: else
    values = outputs.squeeze(1) * preprocess["target_std"] + preprocess["target_mean"]
    #: endif
    #: if forecast
    values = values + torch.from_numpy(base)
    limits = serving.range_limits(preprocess, values, [steps for _, _, steps in names]).values()
    columns = [about["series"] or "series", about["time"], "steps ahead", "forecast", *["low", "high"][: len(limits)]]
    rows = [[*of, *figures] for of, *figures in zip(names, values.tolist(), *limits, strict=True)]
    if not about["series"]:
        columns, rows = columns[1:], [row[1:] for row in rows]
    #: elif not classification
    limits = serving.range_limits(preprocess, values)  # the ends of a range around each, where the run could find one
    columns = [label, "prediction", *limits]
    rows = list(zip(names, values.tolist(), *limits.values(), strict=True))
    #: endif
    #: if pictures
    rows += [[name] + [None] * (len(columns) - 1) for name, _ in unread]
    notes += [f"{why} It has no prediction." for _, why in unread]
    serving.write_output(options.output, columns, rows, notes=notes)
    #: elif forecast
    said, ends = serving.range_said(preprocess), serving.series_end(about, past)
    serving.write_output(options.output, columns, rows, notes=notes, ranges=said, history=ends)
    print(said, end="\n" if said else "")
    #: elif classification
    serving.write_output(options.output, columns, rows, inputs=table, notes=notes, source=options.input)
    #: else
    said = serving.range_said(preprocess)
    more = {"inputs": table, "notes": notes, "ranges": said, "source": options.input}
    serving.write_output(options.output, columns, rows, **more)
    print(said, end="\n" if said else "")
    #: endif
    print(*notes, sep="\n", end="\n" if notes else "")
    print(f"{len(names)} predicted, written to {options.output}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Predict with the trained model.")
    #: if forecast
    parser.add_argument("--input", type=Path)
    #: else
    parser.add_argument("--input", type=Path, required=True)
    #: endif
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--weights", type=Path, default=Path("work/results/model.safetensors"))
    #: if classification
    parser.add_argument("--threshold", default="", metavar="CLASS=P")
    #: endif
    try:
        main(parser.parse_args())
    except serving.InputError as error:
        serving.fail(error)
