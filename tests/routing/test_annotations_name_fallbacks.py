"""Fallbacks are annotations of ModelRoutes, InferenceModels and InferencePools."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import api, routing
from headgate.api import fallbacks, gie_v1alpha1, kthena_networking, marks
from headgate.api.marks import InvalidAnnotationError
from headgate.routing import InferenceObjects, translate

META = api.ObjectMeta


def _route(**annotations):
    named = {f"headgate.dev/{name.replace('_', '-')}": value for name, value in annotations.items()}
    return kthena_networking.ModelRoute(
        metadata=META(name="big", namespace="default", annotations=named),
        spec=kthena_networking.ModelRouteSpec(model_name="big", rules=[]),
    )


def test_a_route():
    """Models, pools, reasons and times."""
    route = _route(
        fallback="small, pool=spare",
        fallback_on="error, slo, 404",
        fallback_after="500ms",
        fallback_first_token="2m",
    )
    snapshot = translate([route], [], [])
    fallback = snapshot.models["big"][0].fallback
    spare = api.ObjectRef("ModelServer", "default", "spare")
    assert fallback == routing.Fallback(
        next=(routing.Next("small"), routing.Next("", spare)),
        reasons=frozenset({"error", "slo"}),
        statuses=frozenset({404}),
        after_s=0.5,
        first_token_s=120.0,
    )
    (problem,) = snapshot.problems
    assert (problem.reason, problem.field) == (
        "FallbackNotFound",
        "metadata.annotations[headgate.dev/fallback]",
    )


def test_an_invalid_annotation():
    """It is reported, and the route works without."""
    snapshot = translate([_route(fallback="a", fallback_after="soon")], [], [])
    assert snapshot.models["big"][0].fallback is None
    (problem,) = snapshot.problems
    assert problem.field == "metadata.annotations[headgate.dev/fallback-after]"


def test_an_inference_pool():
    """Its own kind of pool takes over."""
    pool = gie_v1alpha1.InferencePool(
        metadata=META(name="p", namespace="default", annotations={marks.FALLBACK: "pool=q"}),
        spec=gie_v1alpha1.InferencePoolSpec(selector={"app": "p"}, target_port_number=8000),
    )
    snapshot = translate([], [], [], inference=InferenceObjects(pools=[pool]))
    ((key, made),) = snapshot.pools.items()
    assert made.fallback.next == (routing.Next("", key._replace(name="q")),)


@pytest.mark.parametrize(
    "annotations",
    [
        {marks.FALLBACK: ""},
        {marks.FALLBACK: "a,,b"},
        {marks.FALLBACK: "pool="},
        {marks.FALLBACK: "pool=A/b"},
        {marks.FALLBACK: ",".join(map(str, range(9)))},
        {marks.FALLBACK: "a", marks.FALLBACK_ON: "200"},
        {marks.FALLBACK: "a", marks.FALLBACK_ON: "slo"},
        {marks.FALLBACK: "a", marks.FALLBACK_AFTER: "5"},
        {marks.FALLBACK: "a", marks.FALLBACK_AFTER: "99999s"},
    ],
)
def test_what_is_no_fallback(annotations):
    with pytest.raises(InvalidAnnotationError):
        fallbacks.parse(annotations)


@given(st.dictionaries(st.sampled_from(marks.OF_FALLBACKS), st.text(max_size=60)))
def test_any_text_is_read_or_rejected(annotations):
    """Nothing else is raised, and what is read keeps its bounds."""
    try:
        written = fallbacks.parse(annotations)
    except InvalidAnnotationError as error:
        assert error.annotation in annotations
        return
    assert (written is None) == (marks.FALLBACK not in annotations)
    assert written is None or 1 <= len(written.next) <= fallbacks.MAX_NEXT
