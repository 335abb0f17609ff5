"""The option `--images`: a file that says which commands run in place of images."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from headgate import node


class _ImagesFile(click.ParamType["node.ImagePrograms"]):
    name = "file"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> node.ImagePrograms:
        import yaml

        from headgate import node

        try:
            return node.parse_images(yaml.safe_load(Path(value).read_text()), value)
        except OSError as error:
            self.fail(f"cannot read {value}: {error.strerror}", param, ctx)
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            self.fail(f"{value} is not YAML: {error}", param, ctx)
        except node.ImagesError as error:
            self.fail(f"\n{error}", param, ctx)


images = click.option(
    "--images",
    type=_ImagesFile(),
    metavar="FILE",
    help="YAML that says which command runs in place of an image, and which directory is a claim: images: "
    "[{image: PATTERN, command: [...], wrap: true, args: [...], env: {...}}], claims: [{claim: NAME, "
    "directory: PATH}].",
)
