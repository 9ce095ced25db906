"""Why a message did not arrive, in words for the person whom it was for."""

from __future__ import annotations


class DeliveryTrouble(Exception):
    """It did not arrive, and may when it is tried again."""


class DeliveryRefused(DeliveryTrouble):
    """It did not arrive, and trying again would not help."""
