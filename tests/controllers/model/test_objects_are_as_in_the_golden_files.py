"""The objects of a Model of each type are those in golden/, which a person reads when they change.

`python tests/controllers/model/driver/goldens.py` writes them again.
"""

from typing import get_args, get_type_hints

import goldens
import pytest
import yaml

from headgate.api import kthena_registry


@pytest.mark.parametrize("model", goldens.MODELS, ids=[path.stem for path in goldens.MODELS])
def test_objects_are_those_of_the_file(model):
    """With every problem as a comment."""
    assert goldens.text(model) == goldens.golden(model).read_text()


def test_every_type_of_backend_has_a_file():
    """And no file is left over."""
    models = [yaml.safe_load(path.read_text()) for path in goldens.MODELS]
    shown = {backend["type"] for model in models for backend in model["spec"]["backends"]}
    hints = get_type_hints(kthena_registry.ModelBackend)
    assert shown == set(get_args(hints["type"]))
    written = {path.name for path in (goldens.HERE / "golden").iterdir()}
    assert written == {path.name for path in goldens.MODELS}
