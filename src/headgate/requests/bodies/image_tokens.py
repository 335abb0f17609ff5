"""The tokens that models make of an image, by its size and the name of the model.

Each rule is that of the model's own image processor with its usual settings. Sources: the processors of the
same names in Hugging Face's `transformers` and the `preprocessor_config.json` of the models; for OpenAI and
Anthropic, their pages on images. docs/forms.md has the table.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Final

Rule = Callable[[int, int], int]
"""Tokens by width and height, of at least one pixel each."""

MAX_TOKENS: Final = 16_384
"""Of one image, whatever its file says: more than any of these models makes."""
PIXELS_PER_TOKEN: Final = 1024
FEWEST_TOKENS: Final = 64
"""For models without a rule: most recent ones take images at their own size, and make a token of a square of
28 to 32 pixels."""


def tokens(rule: Rule, width: int, height: int) -> int:
    return max(min(rule(max(width, 1), max(height, 1)), MAX_TOKENS), 1)


@lru_cache(maxsize=1024)
def rule_of(model: str) -> Rule:
    """The rule of a model by its name, such as `Qwen/Qwen2.5-VL-7B-Instruct`."""
    name = model.lower()
    return next((rule for pattern, rule in _RULES if pattern.search(name)), by_area)


def by_area(width: int, height: int) -> int:
    """For models that are not known."""
    return max(width * height // PIXELS_PER_TOKEN, FEWEST_TOKENS)


def _squares(side: int, least: int, most: int, width: int, height: int) -> int:
    """Qwen's `smart_resize`: both sides become multiples of `side`, within limits of pixels in all."""
    columns, rows = max(round(width / side), 1), max(round(height / side), 1)
    pixels = columns * rows * side * side
    if pixels > most:
        shrink = math.sqrt(width * height / most)
        columns = max(math.floor(width / shrink / side), 1)
        rows = max(math.floor(height / shrink / side), 1)
    elif pixels < least:
        grow = math.sqrt(least / (width * height))
        columns, rows = math.ceil(width * grow / side), math.ceil(height * grow / side)
    return columns * rows


def _rows_with_ends(side: int, longest: int, width: int, height: int) -> int:
    """Pixtral: an image of at most `longest` pixels in each direction, and a token at the end of each row."""
    ratio = max(width / longest, height / longest, 1.0)
    width, height = max(math.floor(width / ratio), 1), max(math.floor(height / ratio), 1)
    columns, rows = -(-width // side), -(-height // side)
    return rows * (columns + 1)


def _fixed(count: int, width: int, height: int) -> int:
    return count


_TILE: Final = 336
_FEATURES: Final = 24
"""LLaVA-NeXT: a tile has 24 times 24 features."""
_GRIDS: Final = ((1, 2), (2, 1), (2, 2), (3, 1), (1, 3))
"""Its columns and rows of tiles."""


def _unpadded_grid(width: int, height: int) -> int:
    """LLaVA-NeXT: the whole image as one tile, and the tiles of the grid that fits it best, without their
    padding, with a token at the end of each row."""
    columns, rows = max(_GRIDS, key=lambda grid: _fit(grid, width, height))
    across, down = _FEATURES * columns, _FEATURES * rows
    if width / height > across / down:
        used = int(round(height * (across / width), 7))
        down -= (down - used) // 2 * 2
    else:
        used = int(round(width * (down / height), 7))
        across -= (across - used) // 2 * 2
    return across * down + down + _FEATURES * _FEATURES


def _fit(grid: tuple[int, int], width: int, height: int) -> tuple[int, int]:
    """How much of an image a grid shows, and how little of the grid is empty."""
    across, down = grid[0] * _TILE, grid[1] * _TILE
    scale = min(across / width, down / height)
    shown = min(int(width * scale) * int(height * scale), width * height)
    return shown, shown - across * down


_INTERNVL_TILE: Final = 448
_INTERNVL_TOKENS: Final = 256
_INTERNVL_TILES: Final = 12
_INTERNVL_GRIDS: Final = tuple(
    sorted(
        (
            (columns, rows)
            for columns in range(1, _INTERNVL_TILES + 1)
            for rows in range(1, _INTERNVL_TILES + 1)
            if columns * rows <= _INTERNVL_TILES
        ),
        key=lambda grid: grid[0] * grid[1],
    )
)


def _closest_grid(width: int, height: int) -> int:
    """InternVL: the grid whose shape is closest, of equal ones the largest that the image fills by half; and
    the whole image as one more tile."""
    shape, best, least = width / height, (1, 1), math.inf
    for columns, rows in _INTERNVL_GRIDS:
        away = abs(shape - columns / rows)
        is_filled = width * height > columns * rows * _INTERNVL_TILE * _INTERNVL_TILE / 2
        if away < least or (away == least and is_filled):
            best, least = (columns, rows), away
    tiles = best[0] * best[1]
    return _INTERNVL_TOKENS * (tiles + 1 if tiles > 1 else 1)


def _openai_tiles(base: int, tile: int, width: int, height: int) -> int:
    """OpenAI, detail high: within 2,048 pixels, the shorter side at most 768, in tiles of 512. The mini
    model bills a multiple of that."""
    shrink = max(width / 2048, height / 2048, 1.0)
    shrink = max(shrink, min(width, height) / 768)
    columns, rows = math.ceil(width / shrink / 512 - 1e-9), math.ceil(height / shrink / 512 - 1e-9)
    return base + tile * max(columns, 1) * max(rows, 1)


def _openai_patches(factor: float, width: int, height: int) -> int:
    """OpenAI's smaller models: squares of 32 pixels, at most 1,536, which count more."""
    return math.ceil(min(-(-width // 32) * -(-height // 32), 1536) * factor)


def _claude(width: int, height: int) -> int:
    """Anthropic: 750 pixels a token, with the longer side at most 1,568."""
    shrink = max(width / 1568, height / 1568, 1.0)
    return math.ceil(width / shrink * height / shrink / 750)


_RULES: Final[tuple[tuple[re.Pattern[str], Rule], ...]] = (
    (re.compile(r"qwen-?2(\.5)?-(vl|omni)|qvq-"), partial(_squares, 28, 56 * 56, 28 * 28 * 16_384)),
    (re.compile(r"qwen-?3(\.\d)?-(vl|omni)"), partial(_squares, 32, 65_536, 16_777_216)),
    (re.compile(r"llava-(v?1\.6|next)"), _unpadded_grid),
    (re.compile(r"llava-v?1\.5|bakllava"), partial(_fixed, _FEATURES * _FEATURES)),
    (re.compile(r"pixtral"), partial(_rows_with_ends, 16, 1024)),
    (re.compile(r"mistral-small-3\.[12]|mistral-small.*-250[36]"), partial(_rows_with_ends, 28, 1540)),
    (re.compile(r"internvl-?[23]"), _closest_grid),
    (re.compile(r"gemma-?3"), partial(_fixed, 256)),
    (re.compile(r"gpt-4\.1-mini"), partial(_openai_patches, 1.62)),
    (re.compile(r"gpt-4\.1-nano"), partial(_openai_patches, 2.46)),
    (re.compile(r"gpt-4o|gpt-4\.1|gpt-4-turbo"), partial(_openai_tiles, 85, 170)),
    (re.compile(r"claude"), _claude),
)
"""The first that is found in a name is its rule."""
