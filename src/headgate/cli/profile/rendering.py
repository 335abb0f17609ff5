"""Print a profile as YAML for a VariantAutoscaling, or as JSON with all that was measured."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from headgate.cli.profile.results import Deviation, Result

_HEADER = ("batch", "tokens", "requests", "TTFT", "predicted", "ITL", "predicted")


def as_json(found: Result) -> str:
    return msgspec.json.format(msgspec.json.encode(found), indent=2).decode() + "\n"


def as_yaml(found: Result) -> Iterator[str]:
    """Lines for `spec` of a VariantAutoscaling; what was measured is in comments."""
    yield f"# {_plain(found.model)} at {_plain(found.url)}, responses of about {found.output_tokens} tokens"
    yield f"# ITL = alpha + beta * batch: {_off(found.itl_error)}"
    yield f"# TTFT = gamma + delta * tokens * batch, without waiting: {_off(found.ttft_error)}"
    yield "#"
    yield _row(_HEADER)
    for row in found.rows:
        yield _row(
            (
                str(row.batch),
                f"{row.prompt_tokens:.0f}",
                str(row.requests),
                f"{row.ttft_ms:.0f}ms",
                f"{row.predicted_ttft_ms:.0f}ms",
                f"{row.itl_ms:.1f}ms",
                f"{row.predicted_itl_ms:.1f}ms",
            )
        )
    yield "variantProfile:"
    yield "  perfParms:"
    yield f'    decodeParms: {{alpha: "{_number(found.alpha)}", beta: "{_number(found.beta)}"}}'
    yield f'    prefillParms: {{gamma: "{_number(found.gamma)}", delta: "{_number(found.delta)}"}}'
    yield f"  maxBatchSize: {found.max_batch_size}"


def _row(cells: tuple[str, ...]) -> str:
    return "# " + " ".join(f"{cell:>9}" for cell in cells)


def _number(value: float) -> str:
    """Without an exponent, which not every reader of these numbers takes."""
    text = f"{value:.10f}".rstrip("0")
    return text + "0" if text.endswith(".") else text


def _off(deviation: Deviation) -> str:
    return f"{100 * deviation.mean:.1f} % off on average, {100 * deviation.largest:.1f} % at most"


def _plain(text: str) -> str:
    """On one line: the name of a model is the engine's."""
    return "".join(each if each.isprintable() else "?" for each in text[:200])
