"""`headgate key`: the commands."""

from __future__ import annotations

import functools
import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from headgate.auth import keys
from headgate.auth.keys import Key
from headgate.cli import options
from headgate.kubeschema import timestamps

if TYPE_CHECKING:
    from headgate.cli.key.stores import Store

FILE_VARIABLE = "HEADGATE_AUTH_KEYS_FILE"
_OUTPUT = options.output("text", "json")
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION = re.compile(r"([1-9][0-9]{0,8})([smhd])")
_WANTED = "a number and a unit are needed: 30m, 24h or 90d"


class _Duration(click.ParamType[float]):
    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, context: click.Context | None) -> float:
        """In seconds."""
        if isinstance(value, float):
            return value
        found = _DURATION.fullmatch(str(value))
        if found is None:
            self.fail(f"{value!r}: {_WANTED}", param, context)
        return float(found[1]) * _UNITS_S[found[2]]


def _with_store(command: Callable[..., None]) -> Callable[..., None]:
    """Options that say where keys are stored, passed as `store`."""

    @functools.wraps(command)
    def with_store(file: Path, namespace: str | None, server: Any, **given: Any) -> None:
        from headgate.cli.key.stores import Cluster, File

        store = Cluster(server, namespace) if namespace is not None else File(file)
        command(store=store, **given)

    return options.together(
        click.option(
            "--file",
            type=click.Path(dir_okay=False, path_type=Path),
            default="keys.json",
            envvar=FILE_VARIABLE,
            show_envvar=True,
            help="File of keys, which the gateway's setting auth.keys_file names.",
        ),
        click.option(
            "--namespace",
            help="Store keys as Secrets in this namespace, which the setting auth.namespace names.",
        ),
        options.server,
    )(with_store)


@click.group()
def key() -> None:
    """Make, list, rotate and revoke the API keys of a gateway; it applies changes at once.

    Only hashes are stored, in a file, or with --namespace in Secrets of a cluster.
    """


@key.command()
@click.argument("tenant")
@click.option(
    "--expires", "expires_s", type=_Duration(), help="Time until it expires, such as 90d. Default: never."
)
@click.option("--admin", is_flag=True, help="It opens the metrics and admin pages, and nothing else.")
@_with_store
@_OUTPUT
def create(tenant: str, expires_s: float | None, admin: bool, store: Store, output: str) -> None:
    """Make a key for TENANT. It is shown only now."""
    if not keys.is_tenant_name(tenant):
        raise click.ClickException(f"{tenant!r}: {keys.WANTED_TENANT}")
    shown, made = _made(tenant, expires_s, admin=admin)
    store.add(made)
    _tell(shown, made, output)


@key.command(name="list")
@_with_store
@_OUTPUT
def list_keys(store: Store, output: str) -> None:
    """List the keys. They cannot be shown again, but their ids tell which is which: hg_ID_..."""
    found = sorted(store.all(), key=lambda each: (each.tenant, each.created, each.id))
    if output == "json":
        click.echo(json.dumps([_row(each) for each in found], indent=4))
        return
    from headgate.cli.objects import printing

    columns = [printing.Column(name) for name in ("id", "tenant", "created", "expires", "opens")]
    printer = printing.Printer(columns, wide=True, with_namespace=False, with_labels=False)
    rows = [
        printing.Row([each.id, each.tenant, each.created, _expires(each), "admin" if each.admin else "api"])
        for each in found
    ]
    for line in printer.lines(rows, with_headings=True):
        click.echo(line)


@key.command()
@click.argument("key_id", metavar="ID")
@click.option(
    "--overlap",
    "overlap_s",
    type=_Duration(),
    default="24h",
    help="How long the old key stays valid beside the new one.",
)
@click.option(
    "--expires", "expires_s", type=_Duration(), help="Time until the new key expires. Default: never."
)
@_with_store
@_OUTPUT
def rotate(key_id: str, overlap_s: float, expires_s: float | None, store: Store, output: str) -> None:
    """Make a new key for the tenant of the key ID, which expires soon. The new one is shown only now."""
    old = _find(store, key_id)
    shown, made = _made(old.tenant, expires_s, admin=old.admin)
    store.add(made)
    ends_at = min(old.ends_at, time.time() + overlap_s)
    expiring = msgspec.structs.replace(old, expires=timestamps.seconds(ends_at))
    store.replace(expiring)
    _tell(shown, made, output)
    if output == "text":
        click.echo(f"{key_id} stays valid until {expiring.expires}", err=True)


@key.command()
@click.argument("key_id", metavar="ID")
@_with_store
def revoke(key_id: str, store: Store) -> None:
    """Revoke the key ID. A running gateway rejects it at once."""
    old = _find(store, key_id)
    store.remove(key_id)
    click.echo(f"key {key_id} of {old.tenant} is revoked")


def _made(tenant: str, expires_s: float | None, *, admin: bool) -> tuple[str, Key]:
    now = time.time()
    expires = timestamps.seconds(now + expires_s) if expires_s is not None else ""
    return keys.create(tenant, timestamps.seconds(now), expires=expires, admin=admin)


def _find(store: Store, key_id: str) -> Key:
    """The key with this id."""
    found = next((each for each in store.all() if each.id == key_id), None)
    if found is None:
        raise click.ClickException(f"there is no key {key_id[:16]}; `headgate key list` shows all")
    return found


def _tell(shown: str, made: Key, output: str) -> None:
    if output == "json":
        click.echo(json.dumps({"key": shown, **_row(made)}, indent=4))
    else:
        click.echo(shown)


def _row(key: Key) -> dict[str, object]:
    found = msgspec.to_builtins(key)
    assert isinstance(found, dict)
    del found["sha256"]
    return found


def _expires(key: Key) -> str:
    if not key.expires:
        return "never"
    return key.expires if key.ends_at > time.time() else f"{key.expires} (expired)"
