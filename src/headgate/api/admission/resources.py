"""What containers ask for: requests and limits, which must fit each other."""

from __future__ import annotations

from headgate.api import quantity
from headgate.api.admission.findings import Findings
from headgate.api.admission.place import Place

__all__ = ["check"]

_OVERCOMMITTED = frozenset({"cpu", "memory", "ephemeral-storage"})
"""Resources of which more may be allowed than is kept free; of all others exactly as much."""


def check(resources: Place, found: Findings) -> None:
    """Refuses negative amounts, and requests above their limits."""
    if not resources.value:
        return
    for kind in ("limits", "requests"):
        for _, amount in resources[kind].entries():
            parsed = _amount(amount)
            if parsed is not None and parsed.unscaled < 0:
                found.invalid(amount, "must be greater than or equal to 0", str(amount.value))
    for name, request in resources["requests"].entries():
        limit = resources["limits"].key(name)
        least, most = _amount(request), _amount(limit)
        if least is None or most is None:
            continue
        if name not in _OVERCOMMITTED and least != most:
            told = f"must be equal to {name} limit of {limit.value}"
            found.invalid(resources["requests"], told, str(request.value))
        elif least > most:
            told = f"must be less than or equal to {name} limit of {limit.value}"
            found.invalid(resources["requests"], told, str(request.value))


def _amount(place: Place) -> quantity.Quantity | None:
    value = place.text if place.integer is None else place.integer
    if value is None:
        return None
    try:
        return quantity.parse(value)
    except quantity.QuantityError:
        return None
