"""What containers ask for: requests and limits, which must fit each other."""

from __future__ import annotations

from headgate.api.admission.field_cursor import FieldCursor, whole
from headgate.api.admission.findings import Findings
from headgate.kubeschema import quantity

__all__ = ["check"]

_OVERCOMMITTED = frozenset({"cpu", "memory", "ephemeral-storage"})
"""Resources of which more may be allowed than is kept free; of all others exactly as much."""


def check(resources: FieldCursor, found: Findings) -> None:
    """Refuses negative amounts, and requests above their limits."""
    if not resources.value:
        return
    limits, requests = resources["limits"], resources["requests"]
    for kind in (limits, requests):
        for name, amount in kind.mapping.items():
            parsed = _amount(amount)
            if parsed is not None and parsed.unscaled < 0:
                found.invalid(kind.key(name), "must be greater than or equal to 0", str(amount))
    for name, request in requests.mapping.items():
        limit = limits.mapping.get(name)
        if request == limit:
            continue
        least, most = _amount(request), _amount(limit)
        if least is None or most is None:
            continue
        if name not in _OVERCOMMITTED and least != most:
            found.invalid(requests, f"must be equal to {name} limit of {limit}", str(request))
        elif least > most:
            found.invalid(requests, f"must be less than or equal to {name} limit of {limit}", str(request))


def _amount(value: object) -> quantity.Quantity | None:
    amount = value if isinstance(value, str) else whole(value)
    if amount is None:
        return None
    try:
        return quantity.parse(amount)
    except quantity.QuantityError:
        return None
