"""Options for the cache and its events in llm-d-inference-sim's words, beside vLLM's one option for all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from headgate.cli.simulate.engine.grouping import COUNT, options

if TYPE_CHECKING:
    from headgate.simulator.server import KvEventsConfig

EVENTS = options(
    click.option(
        "--kv-events-config", metavar="JSON", help="Where cache events are published, as vLLM's option."
    ),
    click.option(
        "--enable-kvcache",
        is_flag=True,
        help="Publish cache events to --zmq-endpoint, as llm-d-inference-sim; the options below say how.",
    ),
    click.option(
        "--zmq-endpoint",
        default="tcp://127.0.0.1:5557",
        show_default=True,
        help="Where a subscriber listens; with the host * the engine listens itself.",
    ),
    click.option(
        "--event-batch-size", type=COUNT, default=16, show_default=True, help="Events sent together at most."
    ),
    click.option(
        "--use-vllm-map-event-format", is_flag=True, help="Events are maps; otherwise they are arrays."
    ),
    click.option("--kv-events-replay-endpoint", help="Where batches are asked for that were missed."),
    click.option(
        "--kv-events-replay-queue-size",
        type=COUNT,
        default=1024,
        show_default=True,
        help="Batches that are kept for that.",
    ),
)


def config(given: dict[str, Any]) -> KvEventsConfig | None:
    """Takes these options out of those that were given. Raises ValueError."""
    from headgate.simulator import server

    as_json, enabled = given.pop("kv_events_config"), given.pop("enable_kvcache")
    replay = given.pop("kv_events_replay_endpoint")
    words = {
        "endpoint": given.pop("zmq_endpoint"),
        "batch_events": given.pop("event_batch_size"),
        "form": "map" if given.pop("use_vllm_map_event_format") else "array",
        "buffer_steps": given.pop("kv_events_replay_queue_size"),
    }
    if as_json:
        if enabled:
            raise ValueError("--enable-kvcache: leave it out where --kv-events-config is given")
        return server.read_kv_events(as_json)
    if not enabled:
        return None
    connects = "*" not in words["endpoint"]
    return server.KvEventsConfig(**words, connect=connects, replay_endpoint=replay or None)
