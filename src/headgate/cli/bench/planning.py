"""Plan a load test from the command line: everything is checked before anything is sent."""

from __future__ import annotations

import itertools
import random
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec

from headgate.cli.simulate import traffic
from headgate.cli.validation.spelling import closest
from headgate.kubeschema import duration
from headgate.loadtest import Conversation, Limits, Pace, Slo, Target, conversations, paced
from headgate.loadtest.plan.dataset import MAX_BYTES, DatasetError, conversations_of
from headgate.traffic import traces
from headgate.traffic.traces import TimedRequest

_REQUESTS = 100
_RATE = 1.0
_MAX_REQUESTS = 1_000_000
_LONGEST_TOKENS = 20_000_000
_MAX_KEY_BYTES = 4096
_OBJECTIVES = {"ttft": "ttft_s", "tpot": "tpot_s", "latency": "latency_s"}


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments of the command line."""

    target: str
    workload: str | None
    parameters: Sequence[str]
    prompt_tokens: int | None
    output_tokens: int | None
    trace: str | None
    format: str
    block_tokens: int
    jitter: str
    dataset: Path | None
    turns: int
    closed_loop: bool
    seed: int
    salt: str | None
    rate: float | None
    rate_scale: float | None
    arrivals: str | None
    burstiness: float
    requests: int | None
    duration: float | None
    max_in_flight: int
    drop: bool
    workers: int
    model: str | None
    api: str
    stream: bool
    ignore_eos: bool
    body: str | None
    api_key: str | None
    api_key_file: Path | None
    headers: Sequence[str]
    cacert: Path | None
    cert: Path | None
    key: Path | None
    insecure: bool
    explain: bool
    timeout: float
    slo: str | None
    require: float | None
    compare: str | None
    rounds: int
    output: str
    png: Path | None
    save: Path | None


class Planned(NamedTuple):
    """What is sent, and when."""

    conversations: list[Conversation]
    configuration: dict[str, Any]
    """Everything that decides it, for the results."""
    salt: str
    notes: list[str]
    heading: str


def planned(options: Options) -> Planned:
    """The requests; raises click's exceptions for invalid options and files."""
    _check(options)
    texts: list[str] = []
    notes: list[str] = []
    if options.trace is not None:
        requests, source, parameters = _of_trace(options, notes)
    elif options.dataset is not None:
        requests, texts, source, parameters = _of_dataset(options, options.dataset)
        notes.append("tokens of a dataset are estimated as four bytes each until the server counts them")
    else:
        requests, source, parameters = _of_workload(options)
    salt = secrets.token_hex(4) if options.salt is None else options.salt
    configuration = {
        "source": source,
        "parameters": parameters,
        "seed": options.seed,
        "salt": salt,
        "rate_per_s": options.rate,
        "rate_scale": options.rate_scale,
        "arrivals": options.arrivals,
        "burstiness": options.burstiness if options.arrivals == "gamma" else None,
        "closed_loop": options.closed_loop,
        "max_in_flight": options.max_in_flight,
        "drop": options.drop,
        "api": options.api,
        "stream": options.stream,
        "workers": options.workers,
    }
    heading = _heading(source, requests)
    return Planned(conversations(requests, texts), configuration, salt, notes, heading)


def _check(options: Options) -> None:
    """Reject options that contradict each other."""
    sources = {
        "--workload": options.workload,
        "--prompt-tokens": options.prompt_tokens,
        "--trace": options.trace,
        "--dataset": options.dataset,
    }
    if len(given := [flag for flag, value in sources.items() if value is not None]) > 1:
        raise click.UsageError(f"{' and '.join(given)} cannot be combined")
    if options.parameters and (options.trace or options.dataset or options.prompt_tokens):
        raise click.UsageError("--set is for parameters of a --workload")
    if options.output_tokens is not None and (options.trace or options.workload):
        raise click.UsageError("--output-tokens: lengths are already set by the trace or the workload")
    if options.rate_scale is not None and options.trace is None:
        raise click.UsageError("--rate-scale is for a --trace; set the rate with --rate")
    if options.rate_scale is not None and options.rate is not None:
        raise click.UsageError("--rate and --rate-scale cannot be combined")
    if options.burstiness != 1.0 and options.arrivals != "gamma":
        raise click.UsageError("--burstiness is for --arrivals gamma")
    if options.turns > 1 and options.dataset is None:
        raise click.UsageError("--turns is for a --dataset; the workload chat has conversations")
    if options.api_key_file is not None and options.api_key:
        raise click.UsageError("--api-key and --api-key-file cannot be combined")
    if options.key is not None and options.cert is None:
        raise click.UsageError("--key needs --cert")
    if options.rounds > 1 and options.compare is None:
        raise click.UsageError("--rounds is for --compare URL")
    if options.api == "completions" and options.turns > 1:
        raise click.UsageError("--turns needs --api chat")


def _of_trace(options: Options, notes: list[str]) -> tuple[list[TimedRequest], str, dict[str, Any]]:
    assert options.trace is not None
    used = traffic.of_file(
        options.trace, options.format, options.block_tokens, traces.Arrivals(limit=_read_requests(options))
    )
    jitter_s = traffic.jitter_s(options.jitter, used.grid_s)
    if jitter_s and options.jitter == "auto":
        notes.append(f"requests are spread over the {jitter_s:g} s that the trace's times are rounded to")
    requests = traces.in_turn(used.requests) if options.closed_loop else used.requests
    changed = traces.Arrivals(
        jitter_s=jitter_s, rate_scale=options.rate_scale or 1.0, rate_per_s=options.rate
    )
    requests = traces.arrange(requests, changed, random.Random(options.seed))  # noqa: S311
    if options.arrivals is not None:
        requests = paced(requests, _pace(options, traces.mean_rate(requests) or _RATE), _rng(options))
    return _until(requests, options.duration), f"{options.trace} ({used.format})", {}


def _read_requests(options: Options) -> int:
    if options.requests is not None:
        return options.requests
    return _REQUESTS if options.duration is None else _MAX_REQUESTS


def _of_workload(options: Options) -> tuple[list[TimedRequest], str, dict[str, Any]]:
    given = traffic.parameters(options.parameters)
    name = options.workload or "independent"
    if options.prompt_tokens is not None or options.output_tokens is not None:
        given |= {"variation": "0", "longest_tokens": str(_LONGEST_TOKENS)}
        given |= {"prompt_tokens": str(options.prompt_tokens or 215)}
        given |= {"output_tokens": str(options.output_tokens or 198)}
    rate = options.rate or (_RATE if "rate" not in given else float(given["rate"]))
    given["rate"] = str(rate)
    if "requests" not in given:
        given["requests"] = str(_count(options, rate))
    used = traffic.of_workload(name, given, traces.Arrivals(), options.seed)
    requests = traces.in_turn(used.requests) if options.closed_loop else used.requests
    if options.arrivals is not None:
        requests = paced(requests, _pace(options, rate), _rng(options))
    return _until(requests, options.duration), f"workload {name}", used.parameters


def _count(options: Options, rate: float) -> int:
    """Requests to generate: enough for the duration, of which the rest is cut off."""
    if options.requests is not None:
        return options.requests
    if options.duration is None:
        return _REQUESTS
    expected = rate * options.duration
    needed = int(expected + 10 * expected**0.5 / min(options.burstiness, 1.0) ** 0.5) + 10
    if needed > _MAX_REQUESTS:
        raise click.UsageError(
            f"--rate times --duration are more than {_MAX_REQUESTS:,} requests; make one of them smaller"
        )
    return needed


def _of_dataset(options: Options, file: Path) -> tuple[list[TimedRequest], list[str], str, dict[str, Any]]:
    rate = options.rate or _RATE
    try:
        if file.stat().st_size > MAX_BYTES:
            raise click.UsageError(
                f"--dataset: {file} is longer than {MAX_BYTES >> 30} GiB; use a part of it"
            )
        data = file.read_bytes()
        found = conversations_of(
            data, _count(options, rate), options.turns, options.output_tokens, _rng(options)
        )
    except OSError as error:
        raise click.ClickException(f"--dataset: {file}: {error.strerror}") from error
    except DatasetError as error:
        raise click.ClickException(f"--dataset: {file} {error}") from error
    requests = paced(found.requests, _pace(options, rate), _rng(options))
    kept = _until(requests, options.duration)
    return kept, found.texts[: len(kept)], f"{file} (dataset)", {"turns": options.turns}


def _pace(options: Options, rate: float) -> Pace:
    return Pace(
        rate_per_s=rate,
        process=options.arrivals or "poisson",  # type: ignore[arg-type]  # click has checked it
        burstiness=options.burstiness,
    )


def _rng(options: Options) -> random.Random:
    return random.Random(f"{options.seed}/arrivals")  # noqa: S311 - it must be the same again


def _until(requests: Sequence[TimedRequest], duration_s: float | None) -> list[TimedRequest]:
    if duration_s is None:
        return list(requests)
    kept = list(itertools.takewhile(lambda request: request.at_s < duration_s, requests))
    if not kept:
        raise click.UsageError("no request is due within --duration; raise it, or the --rate")
    return kept


def _heading(source: str, requests: Sequence[TimedRequest]) -> str:
    span_s = requests[-1].at_s - requests[0].at_s
    prompt = sum(each.prompt_tokens for each in requests) / len(requests)
    output = sum(each.output_tokens for each in requests) / len(requests)
    rate = f", {len(requests) / span_s:.3g} a second" if span_s and len(requests) > 1 else ""
    return (
        f"{source}: {len(requests):,} requests in {span_s:.0f} s{rate}, on average {prompt:,.0f} prompt and "
        f"{output:,.0f} output tokens"
    )


def target(options: Options, url: str) -> Target:
    """Where requests are sent; raises click's exceptions."""
    headers = [_header(text) for text in options.headers]
    if options.explain:
        headers.append(("x-headgate-explain", "1"))
    made = Target(
        url=url,
        api_key=_key(options),
        headers=headers,
        cacert=str(options.cacert) if options.cacert else None,
        cert=str(options.cert) if options.cert else None,
        key=str(options.key) if options.key else None,
        is_insecure=options.insecure,
    )
    try:
        made.server()
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    except OSError as error:
        raise click.UsageError(f"certificates: {error.strerror or error}") from error
    return made


def _header(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign:
        raise click.UsageError(f"--header: {text!r} is not NAME=VALUE")
    return name.strip(), value.strip()


def _key(options: Options) -> str:
    if options.api_key_file is None:
        return (options.api_key or "").strip()
    try:
        with options.api_key_file.open("rb") as file:
            data = file.read(_MAX_KEY_BYTES + 1)
    except OSError as error:
        raise click.UsageError(f"--api-key-file: {options.api_key_file}: {error.strerror}") from error
    key = data.decode("ascii", "replace").strip()
    if not key or len(data) > _MAX_KEY_BYTES or not (key.isascii() and key.isprintable()):
        raise click.UsageError(f"--api-key-file: {options.api_key_file} has no valid key")
    return key


def more_fields(options: Options) -> dict[str, Any]:
    """The fields of --body; raises click.UsageError."""
    if options.body is None:
        return {}
    try:
        return msgspec.json.decode(options.body.encode(), type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise click.UsageError(f"--body: not a JSON object: {error}") from error


def limits(options: Options) -> Limits:
    return Limits(max_in_flight=options.max_in_flight, drops=options.drop)


def slo(options: Options) -> Slo:
    """The objectives; raises click.UsageError."""
    found: dict[str, float] = {}
    for part in options.slo.split(",") if options.slo else ():
        name, _, text = part.strip().partition("=")
        if name not in _OBJECTIVES:
            near = closest(name, _OBJECTIVES)
            fix = f"did you mean {near}?" if near else f"there are {', '.join(_OBJECTIVES)}"
            raise click.UsageError(f"--slo: unknown objective {name!r}; {fix}")
        try:
            found[_OBJECTIVES[name]] = duration.parse(text)
        except duration.DurationError:
            found[_OBJECTIVES[name]] = 0.0
        if found[_OBJECTIVES[name]] <= 0:
            raise click.UsageError(f"--slo {name}: {text!r} is not a time such as 500ms or 2s")
    if not options.stream and ("ttft_s" in found or "tpot_s" in found):
        raise click.UsageError("--slo: ttft and tpot need streamed responses; use latency with --no-stream")
    return Slo(**found)
