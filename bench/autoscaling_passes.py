"""CPU time of one pass of the autoscaler over many bindings: `python bench/autoscaling_passes.py`.

Each binding has 8 Pods with two metrics, a forecast, and windows with history. The state of each goes
through JSON, as in the controller.
"""

from __future__ import annotations

import argparse
import random
import time

from headgate.autoscaling import Bounds, History, MetricTarget, Observation, PodSample, Policy, decide

BINDINGS, PODS, PASSES, PASS_S = 1_000, 8, 40, 15.0
POLICY = Policy((MetricTarget("running", 10.0), MetricTarget("kv_usage", 0.7)))


def observation(now: float, current: int, rng: random.Random) -> Observation:
    """Pods of which the first was created a minute ago, so that start-up times are learned."""
    pods = [
        PodSample(
            name=f"engine-{number}-{int(now)}" if number == 0 else f"engine-{number}",
            is_ready=number > 0 or rng.random() < 0.5,
            values={"running": rng.uniform(5, 14), "kv_usage": rng.uniform(0.3, 0.9)},
            created_at=now - 1 if number == 0 else 0.0,
        )
        for number in range(current)
    ]
    return Observation(now, current, sum(pod.is_ready for pod in pods), pods)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--bindings", type=int, default=BINDINGS)
    bindings = options.parse_args().bindings
    rng = random.Random(1)
    states = [History.empty().to_json()] * bindings
    decisions_s, states_s = [], []
    for step in range(PASSES):
        seen = [observation(1e9 + step * PASS_S, PODS, rng) for _ in states]
        began = time.process_time()
        histories = [History.from_json(state) for state in states]
        read = time.process_time()
        histories = [
            decide(POLICY, Bounds(1, 100), history, each)[1]
            for history, each in zip(histories, seen, strict=True)
        ]
        decided = time.process_time()
        states = [history.to_json() for history in histories]
        decisions_s.append(decided - read)
        states_s.append(read - began + time.process_time() - decided)
    print(f"{bindings} bindings of {PODS} Pods, CPU time of a pass (median of {PASSES}):")
    print(f"  decisions       {1e3 * sorted(decisions_s)[PASSES // 2]:7.1f} ms")
    print(f"  state as JSON   {1e3 * sorted(states_s)[PASSES // 2]:7.1f} ms, {max(map(len, states))} bytes")


if __name__ == "__main__":
    main()
