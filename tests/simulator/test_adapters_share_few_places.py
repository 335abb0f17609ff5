import pytest

from headgate.simulator.model import ConfigError, Engine, Submission, run_virtual


@pytest.fixture
def admitted(small_engine, request_of):
    """Runs requests that come at once; gives the names admitted in each step, and the engine."""

    def run(*requests, **config):
        engine = Engine(small_engine(**{"max_num_seqs": 8, "prefill_budget_tokens": 64, **config}))
        steps = []
        run_virtual(
            engine,
            [Submission(0.0, request_of(name, 4, 2, adapter=adapter)) for name, adapter in requests],
            on_step=lambda outcome: steps.append((outcome.plan.admitted, outcome.duration_s)),
        )
        return steps, engine

    return run


def test_a_request_waits_while_all_places_are_in_use_by_other_adapters(admitted):
    """With one place, b runs once a has ended, though the batch has room."""
    steps, _ = admitted(("1", "a"), ("2", "b"), max_adapters=1)
    assert [names for names, _ in steps] == [("1",), (), ("2",), ()]


def test_a_request_whose_adapter_can_run_goes_before_one_whose_cannot(admitted):
    """The queue is asked in order for whoever can run; the base model always can."""
    steps, _ = admitted(("1", "a"), ("2", "b"), ("3", "a"), ("4", ""), max_adapters=1)
    assert [names for names, _ in steps] == [("1", "3", "4"), (), ("2",), ()]


def test_an_adapter_stays_loaded_until_its_place_is_needed(admitted):
    """It takes the place of the one whose last use is longest ago, and only then."""
    _, engine = admitted(("1", "a"), ("2", "b"), max_adapters=3)
    assert engine.statistics().adapters_loaded == ("a", "b")
    _, engine = admitted(("1", "a"), ("2", "b"), ("3", "a"), ("4", "c"), max_adapters=2)
    assert engine.statistics().adapters_loaded == ("a", "c")
    assert engine.statistics().adapter_loads_total == 3


def test_loading_makes_the_step_longer(admitted):
    """By `adapter_load_s` for each adapter; using a loaded one costs nothing."""
    steps, _ = admitted(("1", "a"), ("2", "b"), max_adapters=2, adapter_load_s=5.0)
    without, _ = admitted(("1", "a"), ("2", "b"), max_adapters=2)
    assert steps[0][1] == pytest.approx(without[0][1] + 10.0)
    assert steps[1][1] == pytest.approx(without[1][1])


def test_an_adapter_that_the_host_keeps_loads_faster(small_engine, request_of):
    """The host keeps those whose last use is latest, beyond the one that is loaded."""
    config = {"max_adapters": 1, "adapter_load_s": 5.0, "adapter_host_load_s": 0.5}

    def seconds(adapters, **more):
        engine = Engine(small_engine(**config, **more))
        durations = []
        for number, adapter in enumerate(adapters):
            engine.submit(request_of(str(number), 4, 1, adapter=adapter), 0.0)
            durations.append(engine.step(0.0).duration_s)
        return [duration - 1.04 for duration in durations]

    assert seconds("abab") == pytest.approx([5, 5, 5, 5])
    assert seconds("abab", max_host_adapters=2) == pytest.approx([5, 5, 0.5, 0.5])
    assert seconds("abcba", max_host_adapters=2) == pytest.approx([5, 5, 5, 0.5, 5])
    assert seconds("abaca", max_host_adapters=2) == pytest.approx([5, 5, 0.5, 5, 0.5])


def test_the_host_keeps_at_least_what_is_loaded(small_engine):
    """As in vLLM, which has loaded adapters in both memories."""
    with pytest.raises(ConfigError, match=r"max_host_adapters: must be at least max_adapters 3"):
        small_engine(max_adapters=3, max_host_adapters=2)


def test_a_loaded_adapter_takes_memory(admitted):
    """Its blocks are used as long as it is loaded, also after its requests have ended."""
    _, engine = admitted(("1", "a"), max_adapters=2, adapter_kv_blocks=3, kv_blocks=30)
    assert engine.statistics().kv_blocks_used == 3


def test_statistics_tell_who_runs_and_who_waits(small_engine, request_of):
    """As vLLM's LoRA gauge does: adapters of running and of waiting requests, and how many may run."""
    engine = Engine(small_engine(max_adapters=1))
    for name, adapter in (("1", "a"), ("2", "b"), ("3", "")):
        engine.submit(request_of(name, 4, 9, adapter=adapter), 0.0)
    engine.step(0.0)
    statistics = engine.statistics()
    assert (statistics.adapters_running, statistics.adapters_waiting) == ({"a"}, {"b"})
    assert statistics.max_adapters == 1


def test_adapters_must_leave_room_for_the_longest_request(small_engine):
    """Otherwise a request could wait for ever."""
    with pytest.raises(ConfigError, match=r"kv_blocks: 16 blocks .* beside 4 for adapters"):
        small_engine(max_adapters=2, adapter_kv_blocks=2)


def test_by_priority_the_smaller_number_starts_first_and_is_preempted_last(small_engine, request_of):
    """Among equals, who came first."""
    engine = Engine(small_engine(by_priority=True, max_num_seqs=1))
    order = []
    run_virtual(
        engine,
        [
            Submission(0.0, request_of(name, 4, 2, priority=priority))
            for name, priority in (("low", 5), ("high", -1), ("low too", 5), ("mid", 0))
        ],
        on_step=lambda outcome: order.extend(outcome.plan.admitted),
    )
    assert order == ["high", "mid", "low", "low too"]
    preempted = []
    run_virtual(
        Engine(small_engine(by_priority=True)),
        [
            Submission(0.0, request_of("late but high", 28, 20, priority=-1)),
            Submission(0.0, request_of("low", 28, 20)),
        ],
        on_step=lambda outcome: preempted.extend(outcome.plan.preempted),
    )
    assert preempted == ["low"]
