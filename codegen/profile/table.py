"""A table, from any source, to its profile and packed file: survey, decide types, pack and measure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa

from codegen.profile.findings import as_finding, column_findings, ranked, table_findings
from codegen.profile.groups import group_findings
from codegen.profile.guess import ColumnPlan, column_plan, convert
from codegen.profile.leaks import leak_findings, leak_suspects
from codegen.profile.marks import batch_marks
from codegen.profile.outliers import far_findings
from codegen.profile.parts import Parts
from codegen.profile.problems import fail
from codegen.profile.readings import no_features
from codegen.profile.rows import rows_with
from codegen.profile.series import with_series
from codegen.profile.sources import TableSource
from codegen.profile.spans import with_spans
from codegen.profile.spellings import similar_classes
from codegen.profile.splits import split_name
from codegen.profile.spool import PackedWriter, Spool
from codegen.profile.stats import ColumnStats, RepeatedRows, RowSample, histogram_edges, value_limit
from codegen.profile.survey import ColumnSurvey
from codegen.profile.target import (
    CLASSIFICATION,
    REGRESSION,
    target_problems,
)
from codegen.profile.target_guess import guess_target, guess_task, passed_over
from codegen.profile.types import (
    SPLIT_COLUMN,
    TABLE_FILE,
    ColumnProfile,
    ColumnType,
    DataKind,
    DatasetProfile,
    Finding,
    ProfileOptions,
)

Progress = Callable[[float, str], None]
_TOP_VALUES = 100
_TEXT_SHOWN = 80
_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
_SURVEY_SHARE = 0.6
_BATCH_STEP = 0.02


@dataclass(frozen=True)
class _Measured:
    """What the second reading gave."""

    stats: list[ColumnStats]
    sample: pl.DataFrame
    repeats: int
    repeated_rows: tuple[int, ...]
    splits: dict[str, int]


def profile_table(
    source: TableSource, out: Path, scratch: Path, options: ProfileOptions, progress: Progress
) -> DatasetProfile:
    """Profile and pack a table into `out / TABLE_FILE`. Raises `DataError`; `scratch` holds temporary files."""
    _refuse_unknown(source.names, options)
    spool = Spool(scratch / "table.arrow")
    try:
        surveys = _survey(source, spool, progress)
    finally:
        spool.close()
    del surveys[len(source.names) :]
    # A type of a column that turned out to be none was set when it counted as one, and loses nothing.
    _refuse_unknown(source.names, replace(options, column_types={}))
    if not surveys[0].rows:
        fail("header_only", "The file has a header and no rows.", "Check how the file was made.", row=1)
    split = _split_survey(surveys, spool)
    plans = [
        column_plan(survey, options.column_types.get(survey.name)) for survey in surveys if survey.name != SPLIT_COLUMN
    ]
    if not plans:
        fail(
            "one_column",
            f"The table has no column besides {SPLIT_COLUMN}.",
            "A table needs a target and one feature at least.",
            column=SPLIT_COLUMN,
        )
    measured = _pack(spool, surveys, plans, split, out, progress)
    progress(0.97, "looking for leaks")
    return _profile(source, surveys, plans, measured, out, options)


def _refuse_unknown(names: tuple[str, ...], options: ProfileOptions) -> None:
    wanted = [*options.column_types, *([options.target] if options.target else [])]
    for name in wanted:
        if name not in names:
            fail(
                "target_not_found" if name == options.target else "unknown_column",
                f"There is no column '{name}'.",
                f"The columns are: {', '.join(names[:20])}{', ...' if len(names) > 20 else ''}.",
                column=name,
            )


def _survey(source: TableSource, spool: Spool, progress: Progress) -> list[ColumnSurvey]:
    surveys = [ColumnSurvey(name, decimal_comma=source.decimal_comma) for name in source.names]
    told = 0.0
    for batch, share in source.batches():
        if not batch.height:
            continue
        marks = batch_marks(batch)
        for survey in surveys:
            survey.add(batch[survey.name], marks.get(survey.name))
        spool.write(batch)
        if share - told >= _BATCH_STEP:
            told = share
            progress(_SURVEY_SHARE * share, f"reading: {surveys[0].rows:,} rows")
    votes = [survey.decimal_commas for survey in surveys]
    comma = source.spelled_alike and max(votes) > 0 and min(votes) >= 0
    point = source.spelled_alike and (min(votes) < 0 or any(survey.has_decimal_points for survey in surveys))
    for survey in surveys:
        survey.settle(comma_elsewhere=comma, point_elsewhere=point)
    return surveys


def _split_survey(surveys: list[ColumnSurvey], spool: Spool) -> bool:
    """Whether the reserved column is there and holds a split. Raises `DataError` where it holds anything else."""
    if all(survey.name != SPLIT_COLUMN for survey in surveys):
        return False
    for batch, _ in spool.read():
        values = batch[SPLIT_COLUMN].cast(pl.String).unique().to_list()
        for value in values:
            if value is None or split_name(value) is None:
                fail(
                    "bad_split_column",
                    f"The column {SPLIT_COLUMN} holds {value!r}.",
                    f"{SPLIT_COLUMN} is reserved for train, val and test: fill every row, or rename the column.",
                    column=SPLIT_COLUMN,
                )
    return True


def _pack(
    spool: Spool, surveys: list[ColumnSurvey], plans: list[ColumnPlan], split: bool, out: Path, progress: Progress
) -> _Measured:
    bounds = {survey.name: (survey.numbers.minimum, survey.numbers.maximum) for survey in surveys}
    limit = value_limit(len(plans))
    stats = [
        ColumnStats(
            plan.name,
            plan.type is ColumnType.NUMERIC,
            limit,
            Parts(plan.type),
            histogram_edges(*bounds[plan.name], plan.whole) if plan.type is ColumnType.NUMERIC else (),
        )
        for plan in plans
    ]
    sample, repeated = RowSample(len(plans)), RepeatedRows()
    signal = [plan.name for plan in plans if plan.type not in (ColumnType.IDENTIFIER, ColumnType.CONSTANT)]
    splits: dict[str, int] = {}
    with PackedWriter(out / TABLE_FILE, _schema(plans, split)) as writer:
        told = 0.0
        for batch, share in spool.read():
            packed = pl.DataFrame([convert(batch[plan.name], plan) for plan in plans])
            for column in stats:
                column.add(packed[column.name])
            sample.add(packed)
            repeated.add(packed.select(signal))
            if split:
                packed = packed.with_columns(_splits(batch, splits))
            writer.write(packed.to_arrow(compat_level=pl.CompatLevel.oldest()))
            if share - told >= _BATCH_STEP:
                told = share
                progress(_SURVEY_SHARE + (0.95 - _SURVEY_SHARE) * share, f"packing: {stats[0].rows:,} rows")
    repeats, rows = repeated.result()
    return _Measured(stats, sample.frame(), repeats, rows, splits)


def _schema(plans: list[ColumnPlan], split: bool) -> pa.Schema:
    types = {ColumnType.NUMERIC: pa.float64(), ColumnType.DATE: pa.timestamp("us")}
    fields = [
        pa.field(plan.name, pa.int64() if plan.packed == pl.Int64 else types.get(plan.type, pa.string()))
        for plan in plans
    ]
    return pa.schema([*fields, pa.field(SPLIT_COLUMN, pa.string())] if split else fields)


def _splits(batch: pl.DataFrame, splits: dict[str, int]) -> pl.Series:
    values = pl.Series(SPLIT_COLUMN, [split_name(value) for value in batch[SPLIT_COLUMN].to_list()], dtype=pl.String)
    for part, count in values.value_counts().iter_rows():
        splits[part] = splits.get(part, 0) + count
    return values


def _profile(
    source: TableSource,
    surveys: list[ColumnSurvey],
    plans: list[ColumnPlan],
    measured: _Measured,
    out: Path,
    options: ProfileOptions,
) -> DatasetProfile:
    by_name = {survey.name: survey for survey in surveys}
    columns = tuple(
        _column(by_name[plan.name], plan, stats, measured.sample)
        for plan, stats in zip(plans, measured.stats, strict=True)
    )
    columns = with_spans(columns, out / TABLE_FILE)
    rows = measured.stats[0].rows
    target, why = (options.target, "set by hand") if options.target else guess_target(columns, options.target_guess)
    chosen = next((column for column in columns if column.name == target), None)
    task, task_why = guess_task(chosen, rows) if chosen else (None, "")
    counted = {stats.name: stats for stats in measured.stats}
    profile = DatasetProfile(
        kind=DataKind.TABLE,
        rows=rows,
        columns=columns,
        target=target,
        target_reason=why,
        task=task,
        task_reason=task_why,
        classes=counted[target].top_values(rows) if target and task == CLASSIFICATION else (),
        given_split=tuple(measured.splits.items()),
        duplicate_rows=measured.repeats,
        source_format=source.description,
        form=source.form,
    )
    findings = [*source.findings(), *table_findings(rows, measured.repeats, measured.repeated_rows)]
    findings += no_features(columns, target)
    findings += [] if options.target else passed_over(columns, target)
    for column, plan, stats in zip(columns, plans, measured.stats, strict=True):
        findings.extend(column_findings(column, by_name[plan.name], plan, stats, column.name == target))
    profile, findings = with_series(profile, findings, out / TABLE_FILE)
    findings.extend(far_findings(profile, out / TABLE_FILE, measured.sample))
    findings.extend(_target_findings(profile, counted, out, measured.sample))
    return replace(profile, warnings=ranked(findings))


def _target_findings(
    profile: DatasetProfile, counted: dict[str, ColumnStats], out: Path, sample: pl.DataFrame
) -> list[Finding]:
    if profile.target is None or profile.task is None:
        problems = target_problems(profile, None, CLASSIFICATION)
        return [as_finding(problem) for problem in problems]
    found = []
    for problem in target_problems(profile, profile.target, profile.task):
        rows: tuple[int, ...] = ()
        if problem.code == "target_missing_values":
            rows = tuple(counted[profile.target].missing_rows)
        elif problem.code == "single_sample_class":
            single = [name for name, count in profile.classes if count == 1]
            rows = rows_with(out / TABLE_FILE, profile.target, single[:100], limit=5)
        found.append(as_finding(problem, rows))
    if profile.task == CLASSIFICATION:
        found.extend(similar_classes((name for name, _ in profile.classes), "Write them alike"))
    leaks = leak_suspects(sample, list(profile.columns), profile.target, profile.task == REGRESSION)
    return [*found, *leak_findings(leaks, profile.target), *group_findings(sample, profile)]


def _column(survey: ColumnSurvey, plan: ColumnPlan, stats: ColumnStats, sample: pl.DataFrame) -> ColumnProfile:
    counts = stats.counts
    column = ColumnProfile(
        name=plan.name,
        type=plan.type,
        guessed_type=plan.guessed_type,
        reason=plan.reason,
        missing=stats.missing,
        unique=len(counts) if counts is not None else max(stats.value_limit, survey.distinct.lower_bound),
        unique_is_exact=counts is not None or (survey.distinct.is_exact and not plan.style),
        top_values=_top_values(stats, plan, sample),
        examples=tuple(stats.examples),
        singletons=sum(count == 1 for count in (counts or {}).values()),
        spelling=plan.spelling if survey.typed is None else "",
        same_parts=stats.parts.same,
        text_length_mean=survey.words.length_sum / survey.words.count if survey.words.count else None,
    )
    if plan.type is not ColumnType.NUMERIC or not stats.present:
        return column
    found = sample[plan.name].drop_nulls().cast(pl.Float64).to_numpy()
    with np.errstate(over="ignore", invalid="ignore"):
        quantiles = tuple(float(value) for value in np.quantile(found, _QUANTILES)) if len(found) else ()
    skew = sample[plan.name].cast(pl.Float64).skew()
    return replace(
        column,
        minimum=survey.numbers.minimum,
        maximum=survey.numbers.maximum,
        mean=_finite(stats.mean),
        std=_finite(stats.std),
        quantiles=quantiles if np.isfinite(quantiles).all() else (),
        histogram_edges=stats.edges,
        histogram_counts=tuple(stats.histogram),
        whole_numbers=plan.whole,
        skew=float(skew) if skew is not None and np.isfinite(skew) else None,
    )


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _top_values(stats: ColumnStats, plan: ColumnPlan, sample: pl.DataFrame) -> tuple[tuple[str, int], ...]:
    """Most frequent values; those of the sample where the column has too many to count, and only if seen twice."""
    if stats.counts is not None:
        top = stats.top_values(_TOP_VALUES)
        return tuple((value[:_TEXT_SHOWN], rows) for value, rows in top[:10]) if plan.type is ColumnType.TEXT else top
    counted = sample[plan.name].drop_nulls().rename("value").value_counts(sort=True, name="rows").head(20)
    return tuple((str(value), int(rows)) for value, rows in counted.iter_rows() if rows > 1)
