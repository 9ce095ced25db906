"""What a node answers; workloads and offers come from the factories that all tests share."""

from __future__ import annotations

from typing import Any

from tests.factory_offers import offer_make, workload_make

__all__ = ["answer", "offer_make", "workload_make"]


def answer(inspection: Any, **more: Any) -> dict[str, Any]:
    """What a node answers to `node.inspect`."""
    body = {"request_id": inspection.pk, "ok": True, "workload": workload_make().to_dict(), "problem": None}
    return {**body, "trace_s": 0.4, **more}
