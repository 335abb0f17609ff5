"""Profiles of a scheduler configuration pick both endpoints, and sessions stick to both (B47, B48)."""

import random

import yaml

HEAD = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n"
PLUGINS = """
plugins:
- {type: session-affinity-filter, name: decode-session}
- type: session-affinity-filter
  name: prefill-session
  parameters: {encodedEndpointHeaderConfig: {header: x-session-token-prefill}, profileName: prefill}
- {type: prefix-based-pd-decider, parameters: {nonCachedTokens: 100}}
- {type: disagg-profile-handler, parameters: {deciders: DECIDERS}}
schedulingProfiles:
- {name: prefill, plugins: [{pluginRef: prefill-session}]}
- {name: decode, plugins: [{pluginRef: decode-session}]}
"""
LONG = [{"role": "user", "content": "a long story " * 100}]


def configured(deciders: str) -> dict[str, object]:
    text = HEAD + PLUGINS.replace("DECIDERS", deciders)
    return {"scheduling_content": yaml.safe_load(text), "scheduling_allow_experimental_plugins": True}


async def test_both_endpoints_are_pinned_by_tokens_of_their_own(split, chat, handed_over):
    """B47: whoever sends both tokens back comes to the same two endpoints each time."""
    settings = configured("{prefill: prefix-based-pd-decider}")
    made = await split(prefill=3, decode=3, remote_tokens=None, settings=settings)
    made.gateway.shell.plane.rng = random.Random(11)
    for endpoint in made.prefill:
        endpoint.behave = handed_over
    for place, endpoint in enumerate(made.decode):
        endpoint.behave = lambda call, place=place: call.answer(b"decoded by %d" % place)
    first = await made.gateway.ask(chat(messages=LONG))
    tokens = {name: first.header(name) for name in ("x-session-token", "x-session-token-prefill")}
    assert None not in tokens.values()
    (prefilled,) = [place for place, endpoint in enumerate(made.prefill) if endpoint.calls]
    sent = {name.replace("-", "_"): value for name, value in tokens.items()}
    for _ in range(5):
        again = await made.gateway.ask(chat(messages=LONG), **sent)
        assert again.body == first.body
        assert {name: again.header(name) for name in tokens} == tokens
    assert [len(endpoint.calls) for endpoint in made.prefill].count(6) == 1
    assert len(made.prefill[prefilled].calls) == 6


async def test_the_decider_says_when_a_prompt_is_prefilled_elsewhere(split, chat, handed_over):
    """Fewer uncached tokens than it names are prefilled where they are decoded."""
    made = await split(remote_tokens=None, settings=configured("{prefill: prefix-based-pd-decider}"))
    made.prefill[0].behave = handed_over
    made.decode[0].behave = lambda call: call.answer(b"decoded")
    assert (await made.gateway.ask(chat())).status == 200
    assert made.prefill[0].calls == []
    assert (await made.gateway.ask(chat(messages=LONG))).status == 200
    assert len(made.prefill[0].calls) == 1


async def test_without_a_decider_the_endpoint_that_decodes_does_it_all(split, chat):
    """B48: no prefill, and no token of one."""
    made = await split(remote_tokens=None, settings=configured("{}"))
    made.decode[0].behave = lambda call: call.answer(b"decoded")
    answer = await made.gateway.ask(chat(messages=LONG))
    assert (answer.body, answer.header("x-session-token-prefill")) == (b"decoded", None)
    assert answer.header("x-session-token") is not None
    assert made.prefill[0].calls == []
