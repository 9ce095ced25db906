"""Query strings are allow-listed: a parameter that an operation does not declare is an error, never a filter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from django.http import HttpRequest
from ninja import NinjaAPI
from ninja.operation import Operation

from harness.errors import Invalid

Values = Callable[..., dict[str, Any]]


def operations(api: NinjaAPI) -> Iterator[tuple[str, Operation]]:
    """Every operation with its path below the API's root."""
    for bound in api._get_bound_routers():
        for path, view in bound.path_operations.items():
            for operation in view.operations:
                yield "/" + "/".join(part.strip("/") for part in (bound.prefix, path) if part.strip("/")), operation


def unknown_parameters_refuse(api: NinjaAPI) -> None:
    """Have every operation answer 422 to query parameters it does not declare, after authentication."""
    for _, operation in operations(api):
        known = {
            name
            for model in operation.models
            if model.__ninja_param_source__ == "query"
            for name in getattr(model, "__ninja_flatten_map__", {})
        }
        operation._get_values = _checked(operation._get_values, frozenset(known))  # type: ignore[method-assign]


def _checked(values: Values, known: frozenset[str]) -> Values:
    def checked(request: HttpRequest, *args: Any) -> dict[str, Any]:
        for name in request.GET:
            if name not in known:
                raise Invalid(
                    f"There is no parameter {name[:80]!r} here.",
                    field=name[:80],
                    hint=f"Use: {', '.join(sorted(known))}." if known else "This address takes no parameters.",
                )
        return values(request, *args)

    return checked
