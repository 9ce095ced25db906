"""Routes of the API, one module per room; each only translates between HTTP and a service or selector."""

from __future__ import annotations

from ninja import Router

from harness.api.routes import (
    accounts,
    calibration,
    datasets,
    exports,
    fetches,
    job_groups,
    job_views,
    jobs,
    nodes,
    notifications,
    offers,
    pool,
    predictions,
    programs,
    queue,
    rates,
    specs,
    storage,
    telemetry,
    transfer,
    uploads,
)

ROUTERS: tuple[tuple[str, Router, str], ...] = (
    ("", accounts.router, "People and tokens"),
    ("/notifications", notifications.router, "Notifications"),
    ("/uploads", uploads.router, "Uploads"),
    ("/fetches", fetches.router, "Uploads"),
    ("/datasets", datasets.router, "Datasets"),
    ("", specs.router, "Specs"),
    ("/jobs", jobs.router, "Jobs"),
    ("/job-views", job_views.router, "Jobs"),
    ("/job-groups", job_groups.router, "Jobs"),
    ("/jobs", programs.router, "Programs"),
    ("/jobs", telemetry.router, "Telemetry and results"),
    ("/jobs", predictions.router, "Predictions"),
    ("/jobs", exports.router, "ONNX"),
    ("/offers", offers.router, "Offers"),
    ("/jobs", offers.jobs_router, "Offers"),
    ("/jobs", rates.router, "Learning rate"),
    ("/queue", queue.router, "Queue"),
    ("/pool", pool.router, "Pool"),
    ("/pool", nodes.join_router, "Nodes"),
    ("/node", nodes.router, "Nodes"),
    ("/node", transfer.router, "Nodes"),
    ("/pool", queue.pool_router, "Reservations, quotas and use"),
    ("", storage.router, "Storage"),
    ("/pool/calibration", calibration.router, "Calibration and accuracy"),
    ("/accuracy", calibration.accuracy_router, "Calibration and accuracy"),
    ("", pool.health_router, "Pool"),
)
