"""The script that goes with the ONNX model of a forecast answers as predict.py does, without torch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.codegen.test_forecast_programs import trained
from tests.codegen.time_series import months, rising, shops
from tests.worker.runtime import samples
from tests.worker.runtime.onnx_programs import WITHOUT_TORCH, answers, exported

SHORT = {"epochs": 2}
PLAN = "day,shop,rain,offer,sold\n2020-05-30,north,2.5,true,70\n2020-05-31,north,,true,\n2020-06-01,north,,FALSE,\n"


def with_offers() -> pa.Table:
    table = shops()
    return table.append_column("offer", pa.array([["True", "False"][row % 2] for row in range(table.num_rows)]))


def rising_months() -> pa.Table:
    place = np.arange(120)
    return pa.table({"month": months(120), "sold": 100 + place + 20 * np.sin(2 * np.pi * place / 12)})


def both(program: Path, *options: str) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """What predict.py and the script of the export say."""
    done = samples.python(program, "predict.py", "--output", "plain.csv", *options, PYTHONPATH="")
    assert done.returncode == 0, done.stderr
    done = samples.python(program, "without_torch.py", "--output", "onnx.csv", *options, PYTHONPATH="")
    assert done.returncode == 0, done.stderr
    return answers(program / "plain.csv"), answers(program / "onnx.csv")


def exported_program(folder: Path, table: pa.Table, **spec: object) -> Path:
    program, _ = trained(folder, table, training=SHORT, **spec)
    answer = exported(program)
    assert answer["ok"] and answer["report"]["script"], answer
    assert "python predict_onnx.py --output forecast.csv" in (program / "onnx" / "README.md").read_text()
    (program / "without_torch.py").write_text(WITHOUT_TORCH)
    return program


def alike(plain: list[dict[str, str]], onnx: list[dict[str, str]]) -> None:
    assert len(plain) == len(onnx) > 0 and list(plain[0]) == list(onnx[0])
    for one, other in zip(plain, onnx, strict=True):
        for name, text in one.items():
            if name in ("forecast", "low", "high"):
                assert float(other[name]) == pytest.approx(float(text), rel=1e-4, abs=1e-3)
            else:
                assert other[name] == text


def test_one_series_from_its_end_and_from_newer_rows(tmp_path: Path) -> None:
    program = exported_program(tmp_path, rising())
    plain, onnx = both(program)
    alike(plain, onnx)
    assert list(onnx[0]) == ["day", "steps ahead", "forecast", "low", "high"] and len(onnx) == 14
    (program / "new.csv").write_text("day;sold\n2021-02-04;510,5\n2021-02-05;511,25\n")
    alike(*both(program, "--input", "new.csv"))


def test_several_series_with_a_column_that_is_known_ahead(tmp_path: Path) -> None:
    program = exported_program(tmp_path, with_offers(), data={"target": "sold", "horizon": 7, "known": ["offer"]})
    (program / "plan.csv").write_text(PLAN)
    plain, onnx = both(program, "--input", "plan.csv")
    alike(plain, onnx)
    assert [row["day"] for row in onnx] == ["2020-05-31", "2020-06-01"]
    month = "".join(f"2020-05-{day},west,true\n" for day in range(10, 32))
    (program / "month.csv").write_text("day,shop,offer\n" + month)
    plain, onnx = both(program, "--input", "month.csv")
    alike(plain, onnx)
    assert [row["day"] for row in onnx] == ["2020-05-30", "2020-05-31"]
    (program / "plan.csv").write_text(PLAN.replace("FALSE", "perhaps"))
    asked = ("--input", "plan.csv", "--output", "odd.csv")
    plain_said = samples.python(program, "predict.py", *asked, PYTHONPATH="").stdout
    onnx_said = samples.python(program, "without_torch.py", *asked, PYTHONPATH="").stderr
    assert "such as 'perhaps' in the row of 'north' of 2020-06-01" in onnx_said
    assert set(onnx_said.splitlines()) <= set(plain_said.splitlines())
    done = samples.python(program, "without_torch.py", "--output", "onnx.csv", PYTHONPATH="")
    assert done.returncode != 0 and done.stderr.startswith("rows of the moments to come are missing, 2020-05-30")
    gone = samples.python(program, "without_torch.py", "--input", "gone.csv", "--output", "onnx.csv", PYTHONPATH="")
    assert gone.returncode == 1 and gone.stderr.splitlines() == ["gone.csv: No such file or directory"]
    for text, told in (
        ("day,shop\n2020-05-30,north\n", "bad.csv: column missing from the input: offer"),
        ("day,shop,offer\n2020-05-31,north,true\n", "bad.csv: no row of 'north' for 2020-05-30 before 2020-05-31"),
        ("day,shop,offer\n2020-05-30,north,\n", "bad.csv: 'offer' is empty in the row of 'north' of 2020-05-30"),
        ("day,shop,offer\n" + 2 * "2020-05-30,north,true\n", "bad.csv: there are two rows of 'north' of 2020-05-30"),
        ("day,shop,offer\n" + 9 * "2020-05-30,north,true\n", "bad.csv: 8 rows have the same 'day' as another, such as"),
        ("day,shop,offer\nsoon,north,true\n", "bad.csv: row 1: column 'day': 'soon' is not a date"),
        ("day,shop,offer\n2021-05-30,north,true\n", "bad.csv: rows are missing between 2020-05-29"),
    ):
        (program / "bad.csv").write_text(text)
        done = samples.python(program, "without_torch.py", "--input", "bad.csv", "--output", "onnx.csv", PYTHONPATH="")
        assert done.returncode != 0 and done.stderr.startswith(told), done.stderr


def test_months_of_a_longest_season_follow_by_the_calendar(tmp_path: Path) -> None:
    program = exported_program(tmp_path, rising_months())
    plain, onnx = both(program)
    alike(plain, onnx)
    assert [row["month"] for row in onnx][:2] == ["2000-01-01", "2000-02-01"]


def test_a_program_that_makes_its_windows_otherwise_takes_its_own_along(tmp_path: Path) -> None:
    program, _ = trained(tmp_path, rising(), training={"epochs": 1})
    text = (program / "windows.py").read_text()
    (program / "windows.py").write_text(text.replace("found = (days + 3) % 7", "found = (days + 3) % 7 * 2"))
    assert exported(program)["report"]["script"]
    (program / "onnx" / "windows.py").read_text().index("% 7 * 2")
    (program / "data.py").write_text((program / "data.py").read_text().replace("1e-3, 1 - 1e-3", "0.2, 1 - 0.2"))
    answer = exported(program)
    assert answer["ok"] and not answer["report"]["script"] and not (program / "onnx" / "windows.py").exists()
    assert "There is no predict_onnx.py here" in (program / "onnx" / "README.md").read_text()
