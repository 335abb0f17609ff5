"""A day's work with another version of kubectl: every form of command, what it prints, and its exit code.

The commands come one after another in one namespace, and the later ones see what the earlier ones did. The
other modules take them apart with the newest kubectl.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

pytestmark = pytest.mark.kubectl

GROUP = "conformance.headgate.dev"
NORTH, SOUTH = (f"gate.{GROUP}/{name}" for name in ("north", "south"))
GONE = f'gate.{GROUP} "{{}}" deleted\n'
ANY = "(?s:.*)"


class Form(NamedTuple):
    """A command, and regular expressions for all that it prints."""

    command: str
    out: str = ""
    code: int = 0
    err: str = ""
    stdin: Any = None


def gate(name: str, **spec: Any) -> dict[str, Any]:
    meta = {"name": name, "labels": {"river": "aare"}}
    return {"apiVersion": f"{GROUP}/v1", "kind": "Gate", "metadata": meta, "spec": spec}


def exactly(*lines: str) -> str:
    return re.escape("".join(f"{line}\n" for line in lines))


def row(*cells: str) -> str:
    return r" +".join(cells) + " *\n"


NOWHERE = json.dumps({"spec": {"nodeSelector": {f"{GROUP}/none": "here"}}}, separators=(",", ":"))
LEAD = row("NAME", "WIDTH", "STATE", "AGE")
AGE = r"\d+m?\d*s"

DISCOVERY = [
    Form("version", f"{ANY}Server Version: v1\\.\\d+{ANY}", err=ANY),
    Form("cluster-info", f"{ANY}Kubernetes control plane{ANY} is running at {ANY}"),
    Form("api-versions", f"{ANY}^{GROUP}/v1$\n{ANY}"),
    Form(f"api-resources --api-group={GROUP} -o name", exactly(f"gates.{GROUP}", f"weirs.{GROUP}")),
    Form("get --raw /readyz", "ok"),
    Form("explain gate.spec.width", f"GROUP: +{GROUP}\nKIND: +Gate\n{ANY}FIELD: width <integer>{ANY}"),
    Form("explain gates.spec --recursive", f"{ANY}  boards\t<\\[\\]Object>\n{ANY}"),
    Form(
        "explain gate.spec.nix",
        "(GROUP:\\s+.*\nKIND:\\s+.*\nVERSION:.*\n+)?",
        1,
        'error: field "nix" does not exist\n',
    ),
    Form("auth can-i create gates", "yes\n"),
    Form("auth whoami", f"ATTRIBUTE +VALUE *\nUsername +{ANY}"),
]
CREATES = [
    Form("create -f -", f"{NORTH} created\n", stdin=gate("north", width=3, replicas=2)),
    Form(
        "create -f -",
        "",
        1,
        f'Error from server \\(AlreadyExists\\): {ANY} gates.{GROUP} "north" already exists\n',
        gate("north", width=3),
    ),
    Form(
        "create -f - --dry-run=server",
        f"{SOUTH} created \\(server dry run\\)\n",
        stdin=gate("south", width=5),
    ),
    Form("create configmap c --from-literal=a=1", "configmap/c created\n"),
    Form("create secret generic s --from-literal=a=1", "secret/s created\n"),
    Form("create serviceaccount robot", "serviceaccount/robot created\n"),
    Form("create deployment web --image=web:1 --replicas=0", "deployment.apps/web created\n"),
    Form("create service clusterip web --tcp=80:8080", "service/web created\n"),
    Form("expose deployment web --port=80 --name=front", "service/front exposed\n"),
    Form("autoscale deployment web --max=3", "horizontalpodautoscaler.autoscaling/web autoscaled\n"),
    Form(f"run one --image=web:1 --overrides={NOWHERE}", "pod/one created\n"),
]
APPLIES = [
    Form("apply -f -", f"{SOUTH} created\n", stdin=gate("south", width=5)),
    Form("apply -f -", f"{SOUTH} unchanged\n", stdin=gate("south", width=5)),
    Form("diff -f -", f"{ANY}^-  width: 5\n\\+  width: 6\n{ANY}", 1, stdin=gate("south", width=6)),
    Form(
        "apply -f - --dry-run=server",
        f"{SOUTH} configured \\(server dry run\\)\n",
        stdin=gate("south", width=6),
    ),
    Form("apply -f -", f"{SOUTH} configured\n", stdin=gate("south", width=6)),
    Form("apply view-last-applied gate/south", f"{ANY}  width: 6\n"),
    Form(
        "apply -f -",
        "",
        1,
        f'{ANY}strict decoding error: unknown field "spec.wide"\n',
        gate("south", wide=6, width=6),
    ),
    Form("apply -f -", "", 1, f'The Gate "south" is invalid: spec.width: {ANY}', gate("south", width=101)),
    Form("apply --server-side -f -", f"{NORTH} serverside-applied\n", stdin=gate("north", width=3)),
    Form(
        "apply --server-side -f - --field-manager=other",
        "",
        1,
        f"error: Apply failed with 2 conflicts: {ANY}\\.spec\\.width\n{ANY}",
        gate("north", width=4),
    ),
    Form(
        "apply --server-side -f - --field-manager=other --force-conflicts",
        f"{NORTH} serverside-applied\n",
        stdin=gate("north", width=4),
    ),
]
READS = [
    Form("get gates", LEAD + row("north", "4", AGE) + row("south", "6", AGE)),
    Form(
        "get gt north -o wide",
        row("NAME", "WIDTH", "STATE", "MATERIAL", "AGE") + row("north", "4", "oak", AGE),
    ),
    Form("get gate north -o json", f'{{\n    "apiVersion": "{GROUP}/v1",\n    "kind": "Gate",\n{ANY}}}\n'),
    Form("get gate north -o yaml", f"apiVersion: {GROUP}/v1\nkind: Gate\n{ANY}\n  width: 4\n"),
    Form("get gates -o name", exactly(NORTH, SOUTH)),
    Form("get gates -o jsonpath={.items[*].spec.width}", "4 6"),
    Form(
        "get gates -o custom-columns=W:.spec.width,D:.spec.depth",
        row("W", "D") + row("4", "<none>") + row("6", "<none>"),
    ),
    Form("get gates -o go-template={{.kind}}", "List"),
    Form("get gates -l river=aare -o name", exactly(NORTH, SOUTH)),
    Form("get gates --field-selector metadata.name=south -o name", exactly(SOUTH)),
    Form("get gates --sort-by=.spec.width --no-headers", row("north", "4", AGE) + row("south", "6", AGE)),
    Form("get gates --show-labels", f"{ANY}river=aare\n"),
    Form("get gates -A", row("NAMESPACE", "NAME", "WIDTH", "STATE", "AGE") + ANY),
    Form("get waterworks -o name", exactly(NORTH, SOUTH)),
    Form("get all -o name", f"{ANY}deployment.apps/web\n{ANY}"),
    Form(
        "get gate north --subresource=scale",
        row("NAME", "DESIRED", "AVAILABLE", "AGE") + row("north", "2", "0", AGE),
    ),
    Form("get gate none", "", 1, f'Error from server \\(NotFound\\): gates.{GROUP} "none" not found\n'),
    Form("get deployment web --no-headers", row("web", "0/0", "0", "0", AGE)),
    Form(
        "get pods", row("NAME", "READY", "STATUS", "RESTARTS", "AGE") + row("one", "0/1", "Pending", "0", AGE)
    ),
    Form("describe gate north", f"Name: +north\n{ANY}Kind: +Gate\n{ANY}Events: +<none>\n"),
    Form("events --for gate/north", "", 0, "No events found in NAMESPACE namespace.\n"),
]
CHANGES = [
    Form('patch gate north --type=merge -p {"spec":{"width":5}}', f"{NORTH} patched\n"),
    Form(
        'patch gate north --type=json -p [{"op":"replace","path":"/spec/width","value":6}]',
        f"{NORTH} patched\n",
    ),
    Form(
        'patch gate north -p {"spec":{"width":5}}',
        "",
        1,
        f"error: application/strategic-merge-patch\\+json is not {ANY}",
    ),
    Form('patch deployment web -p {"spec":{"minReadySeconds":1}}', "deployment.apps/web patched\n"),
    Form(
        'patch gate north --subresource=status --type=merge -p {"status":{"state":"open"}}',
        f"{NORTH} patched\n",
    ),
    Form("label gate north tier=gold", f"{NORTH} labeled\n"),
    Form(
        "label gate north tier=tin",
        "",
        1,
        "error: 'tier' already has a value \\(gold\\), and --overwrite is false\n",
    ),
    Form("label gate north tier-", f"{NORTH} unlabeled\n"),
    Form("annotate gates --all note=a", exactly(f"{NORTH} annotated", f"{SOUTH} annotated")),
    Form("scale gate north --replicas=3", f"{NORTH} scaled\n"),
    Form(
        "scale gate north --replicas=4 --current-replicas=9",
        "",
        1,
        "error: Expected replicas to be 9, was 3\n",
    ),
    Form("replace -f -", f"{SOUTH} replaced\n", stdin=gate("south", width=7)),
    Form("edit gate south", f"{SOUTH} edited\n"),
    Form("set image deployment/web web=web:2", "deployment.apps/web image updated\n"),
    Form("rollout restart deployment/web", "deployment.apps/web restarted\n"),
    Form("wait gate/south --for=jsonpath={.spec.width}=8 --timeout=60s", f"{SOUTH} condition met\n"),
    Form(
        "wait gate/south --for=condition=Ready --timeout=0s",
        "",
        1,
        "error: condition not met for gates/south\n",
    ),
]
DELETES = [
    Form("delete gate south --dry-run=server", GONE.format("south").replace("\n", r" \(server dry run\)\n")),
    Form("delete gate south", GONE.format("south")),
    Form("delete gate south", "", 1, f'Error from server \\(NotFound\\): gates.{GROUP} "south" not found\n'),
    Form("delete -f -", GONE.format("north"), stdin=gate("north", width=1)),
    Form(
        "delete pod one --force --grace-period=0",
        'pod "one" force deleted\n',
        err=f"Warning: Immediate {ANY}",
    ),
    Form("delete configmap c --wait=false", 'configmap "c" deleted\n'),
    Form("delete services --all", exactly('service "front" deleted', 'service "web" deleted')),
]
FORMS = [*DISCOVERY, *CREATES, *APPLIES, *READS, *CHANGES, *DELETES]


def test_every_form_is_taken(older_kubectl: Any, tmp_path: Path) -> None:
    """What each command prints, and its exit code."""
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nsed -i 's/width: 7/width: 8/' \"$1\"\n")
    editor.chmod(0o700)
    assert len({form.command for form in FORMS}) >= 60
    for form in FORMS:
        stdin = None if form.stdin is None else yaml.safe_dump(form.stdin)
        done = older_kubectl.run(*form.command.split(" "), stdin=stdin, KUBE_EDITOR=str(editor))
        assert done.code == form.code, (form.command, done)
        for printed, pattern in ((done.out, form.out), (done.err, form.err)):
            assert re.fullmatch(pattern, printed, re.MULTILINE), (form.command, printed, pattern)


def test_a_watch_prints_rows(older_kubectl: Any) -> None:
    """`get -w`: what there is, then each change."""
    kubectl = older_kubectl
    kubectl("create", "-f", "-", stdin=gate("north", width=3))
    watching = kubectl.start("get", "gates", "-w")
    assert watching.stdout.readline().split() == ["NAME", "WIDTH", "STATE", "AGE"]
    assert watching.stdout.readline().split()[:2] == ["north", "3"]
    kubectl("patch", "gate", "north", "--type=merge", "-p", '{"spec":{"width":8}}')
    assert watching.stdout.readline().split()[:2] == ["north", "8"]
