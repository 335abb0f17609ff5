"""An update that leaves `spec` as it was, such as one by `kubectl annotate`, is judged by what it changes."""

import copy

import pytest

FALLBACK, SPELLED = "headgate.dev/fallback", "metadata.annotations[headgate.dev/fallback]"
RULES = [{"targetModels": [{"modelServerName": "gone", "weight": 1}]}]


def annotated(obj, **annotations):
    changed = copy.deepcopy(obj)
    changed["metadata"]["annotations"] = {
        f"headgate.dev/{name.replace('_', '-')}": value for name, value in annotations.items()
    }
    return changed


@pytest.fixture
def route(make):
    return make("route", "r", {"modelName": "m", "rules": RULES})


def test_a_changed_annotation_is_judged(judge, route):
    """Errors and warnings, and none about what stays as it is: the ModelServer that does not exist."""
    errors, warnings = judge(annotated(route, fallback="m"), old=route)
    assert [error.partition(":")[0] for error in errors] == [SPELLED]
    assert warnings == []
    errors, warnings = judge(annotated(route, fallback="other"), old=annotated(route, fallback="m"))
    assert errors == []
    assert [warning.partition(":")[0] for warning in warnings] == [SPELLED]
    assert judge(annotated(route, fallback="other"))[1] != warnings


def test_an_annotation_that_was_invalid_before_stops_no_other_change(judge, route):
    """Or controllers, which note things there, could write nothing. It is judged when it changes."""
    old = annotated(route, fallback="m")
    assert judge(annotated(route, fallback="m", noted="x"), old=old) == ([], [])
    assert judge(annotated(route), old=old) == ([], [])
    assert judge(annotated(route, fallback="m,m"), old=old)[0] != []


def test_a_change_of_labels_alone_judges_no_annotation(judge, route):
    old = annotated(route, fallback="m")
    new = copy.deepcopy(old)
    new["metadata"]["labels"] = {"team": "a"}
    assert judge(new, old=old) == ([], [])


def test_a_change_of_the_specification_judges_all(judge, route):
    """As before: there the author has the whole object in hand."""
    old = annotated(route, fallback="m")
    new = copy.deepcopy(old)
    new["spec"]["rules"] = RULES * 2
    errors, warnings = judge(new, old=old)
    assert [error.partition(":")[0] for error in errors] == [SPELLED]
    assert warnings
