"""The ModelRoutes of a Model: which requests go to which backends."""

from __future__ import annotations

from headgate import api
from headgate.controllers.model import names
from headgate.controllers.model.scope import Child, Scope


def of_model(scope: Scope) -> list[Child]:
    """All routes of the Model."""
    model = scope.model
    targets = [
        {"modelServerName": names.of_backend(model, backend.name), "weight": backend.route_weight}
        for backend in model.spec.backends
    ]
    spec = {
        "modelName": names.public(model),
        "rules": [{"name": "default", "targetModels": targets}],
    }
    return [scope.child(api.ModelRoute, names.shortened(model.metadata.name, names.LONGEST_NAME), spec)]
