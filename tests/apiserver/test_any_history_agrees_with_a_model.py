"""Whatever clients do, one after another or at once, the server agrees with a model of a few lines.

`HEADGATE_EXAMPLES=2000` looks further than every run can afford.
"""

from __future__ import annotations

import asyncio
import copy
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from headgate.apiserver import Config
from headgate.apiserver.app import application
from headgate.apiserver.parts import Parts

EXAMPLES = int(os.environ.get("HEADGATE_EXAMPLES", "25"))
STEPS = 50
LOG_EVENTS = 12
GROUP = "/apis/test.example/v1"
HOLD = "test.example/hold"
CREATOR, UPDATER = ("test", "Update"), ("other", "Update")
MERGE, JSON, APPLY = (
    f"application/{kind}" for kind in ("merge-patch+json", "json-patch+json", "apply-patch+yaml")
)

PLACES = st.tuples(st.sampled_from(["default", "second"]), st.sampled_from("ab"))
SIZES = st.integers(0, 3)
COLORS = st.sampled_from(["red", "blue"])
TIERS = st.sampled_from(["x", "y", None])


@dataclass
class Widget:
    """What the model knows of an object."""

    version: int
    uid: str
    color: str
    size: int
    tier: str | None = None
    held: bool = False
    deleting: bool = False
    phase: str | None = None
    generation: int = 1
    owners: dict[str, set[tuple[str, str]]] = field(default_factory=dict)
    """Who owns color and size: (manager, operation)."""

    def own(self, name: str, value: Any, who: tuple[str, str]) -> None:
        """Notes a write that is no apply: who changes a field has it alone."""
        if getattr(self, name) != value:
            setattr(self, name, value)
            self.owners[name] = {who}

    @property
    def spec(self) -> Any:
        return {"color": self.color, "size": self.size}

    @property
    def essence(self) -> tuple[Any, ...]:
        return (self.color, self.size, self.tier, self.held, self.phase, self.deleting)


@dataclass(frozen=True)
class Told:
    """An event as a watcher must see it."""

    version: int
    type: str
    place: tuple[str, str]
    state: Widget
    before: Widget | None


class Server:
    """The application without sockets, and a loop to run it."""

    def __init__(self, state: Path, definition: Any) -> None:
        self._config = Config(state, definitions=[definition], watch_events=LOG_EVENTS)
        self._runner = asyncio.Runner()
        self.start()

    def start(self) -> None:
        self.parts = Parts(self._config)
        self._app = application(self.parts, "secret")

    def restart(self) -> None:
        self.parts.store.close()
        self.start()

    def close(self) -> None:
        self.parts.store.close()
        self._runner.close()

    def all(self, *requests: tuple[str, str, Any, str, dict[str, str]]) -> list[tuple[int, Any]]:
        """Status and body of each request; they run at once."""

        async def gathered() -> list[tuple[int, Any]]:
            return list(await asyncio.gather(*(self._ask(*request) for request in requests)))

        return self._runner.run(gathered())

    def one(
        self, method: str, path: str, body: Any = None, media: str = "application/json", **query: str
    ) -> tuple[int, Any]:
        return self.all((method, path, body, media, query))[0]

    def events(self, path: str, **query: str) -> list[Any]:
        """What a watch tells until it has nothing more to tell."""
        status, lines = self._runner.run(self._watch(path, {"watch": "true", **query}))
        assert status == 200
        return [json.loads(line) for line in lines.splitlines()]

    async def _ask(
        self, method: str, path: str, body: Any, media: str, query: dict[str, str]
    ) -> tuple[int, Any]:
        status, text = await self._exchange(
            method, path, query, json.dumps(body).encode() if body else b"", media
        )
        return status, json.loads(text)

    async def _watch(self, path: str, query: dict[str, str]) -> tuple[int, bytes]:
        return await self._exchange("GET", path, query, b"", "", leave=True)

    async def _exchange(
        self, method: str, path: str, query: dict[str, str], body: bytes, media: str, *, leave: bool = False
    ) -> tuple[int, bytes]:
        headers = [(b"authorization", b"Bearer secret"), (b"user-agent", b"test/1")]
        headers += [(b"content-type", media.encode())] if media else []
        scope = {"type": "http", "method": method, "path": path, "headers": headers, "root_path": ""}
        scope["query_string"] = urlencode(query).encode()
        sent: list[Any] = []
        first = True

        async def receive() -> Any:
            nonlocal first
            if first:
                first = False
                return {"type": "http.request", "body": body, "more_body": False}
            # A watcher leaves when it has heard nothing for a few turns of the loop.
            heard = -1
            while heard != len(sent):
                heard = len(sent)
                for _ in range(10):
                    await asyncio.sleep(0)
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        await self._app(scope, receive, send)
        return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])


class Histories(RuleBasedStateMachine):
    """Requests of all kinds against one server, and the model that says what must come of them."""

    definition: Any = None

    def __init__(self) -> None:
        super().__init__()
        self.state = Path(tempfile.mkdtemp())
        self.server = Server(self.state, self.definition)
        self.server.one("POST", "/api/v1/namespaces", {"metadata": {"name": "second"}})
        self.widgets: dict[tuple[str, str], Widget] = {}
        self.told: list[Told] = []
        self.start = 1  # nothing about Widgets was told before
        listed = self.server.one("GET", f"{GROUP}/widgets")[1]
        self.version = int(listed["metadata"]["resourceVersion"])

    def teardown(self) -> None:
        self.server.close()
        shutil.rmtree(self.state)

    # -- what the model says

    def path(self, place: tuple[str, str], name: bool = True) -> str:
        return f"{GROUP}/namespaces/{place[0]}/widgets" + (f"/{place[1]}" if name else "")

    def wrote(self, place: tuple[str, str], answer: Any, new: Widget, old: Widget | None, type_: str) -> None:
        """Notes a write that was done, whose answer must be the state that the model has."""
        if type_ != "DELETED":
            self.agrees(answer, place, new)
        assert new.version > self.version
        self.version = new.version
        self.told.append(Told(new.version, type_, place, copy.deepcopy(new), copy.deepcopy(old)))
        if type_ == "DELETED":
            del self.widgets[place]
        else:
            self.widgets[place] = new

    def agrees(self, obj: Any, place: tuple[str, str], widget: Widget) -> None:
        meta = obj["metadata"]
        assert (meta["namespace"], meta["name"]) == place
        assert (int(meta["resourceVersion"]), meta["uid"]) == (widget.version, widget.uid)
        assert obj["spec"] == widget.spec
        assert meta.get("labels", {}).get("tier") == widget.tier
        assert meta.get("finalizers", []) == ([HOLD] if widget.held else [])
        assert ("deletionTimestamp" in meta) == widget.deleting
        assert obj.get("status", {}).get("phase") == widget.phase
        assert meta["generation"] == widget.generation

    def changed(self, place: tuple[str, str], code: int, answer: Any, new: Widget) -> None:
        """Notes an update that must have been taken; one that changes nothing has no version of its own."""
        old = self.widgets[place]
        assert code == 200, answer
        if new.essence == old.essence and new.owners == old.owners:
            self.agrees(answer, place, old)
            return
        if new.spec != old.spec:
            new.generation += 1
        new.version = int(answer["metadata"]["resourceVersion"])
        over = new.deleting and not new.held
        self.wrote(place, answer, new, old, "DELETED" if over else "MODIFIED")

    def known(self, place: tuple[str, str], code: int, answer: Any) -> bool:
        """Whether the object is there; if not, the answer must be 404."""
        if place in self.widgets:
            return True
        assert (code, answer["reason"]) == (404, "NotFound")
        return False

    def body(self, place: tuple[str, str], widget: Widget, version: str | None) -> Any:
        meta: dict[str, Any] = {"name": place[1], "labels": {"tier": widget.tier} if widget.tier else {}}
        meta["finalizers"] = [HOLD] if widget.held else []
        if version is not None:
            meta["resourceVersion"] = version
        return {"apiVersion": "test.example/v1", "kind": "Widget", "metadata": meta, "spec": widget.spec}

    # -- what clients do

    @rule(place=PLACES, color=COLORS, size=SIZES, tier=TIERS, held=st.booleans(), dry=st.booleans())
    def create(
        self, place: tuple[str, str], color: str, size: int, tier: str | None, held: bool, dry: bool
    ) -> None:
        wanted = Widget(0, "", color, size, tier, held)
        query = {"dryRun": "All"} if dry else {}
        code, made = self.server.one("POST", self.path(place, False), self.body(place, wanted, None), **query)
        if place in self.widgets:
            assert (code, made["reason"]) == (409, "AlreadyExists")
        else:
            assert code == 201, made
            if not dry:
                self.created(place, made, wanted)

    def created(
        self, place: tuple[str, str], made: Any, wanted: Widget, who: tuple[str, str] = CREATOR
    ) -> None:
        wanted.version, wanted.uid = int(made["metadata"]["resourceVersion"]), made["metadata"]["uid"]
        wanted.owners = {"color": {who}, "size": {who}}
        self.wrote(place, made, wanted, None, "ADDED")

    @rule(
        place=PLACES, color=COLORS, size=SIZES, tier=TIERS, version=st.sampled_from(["fresh", "stale", None])
    )
    def update(
        self, place: tuple[str, str], color: str, size: int, tier: str | None, version: str | None
    ) -> None:
        old = self.widgets.get(place)
        new = copy.deepcopy(old) or Widget(0, "", color, size)
        new.own("color", color, UPDATER)
        new.own("size", size, UPDATER)
        new.tier = tier
        number = None if version is None else str((old.version if old else 1) - (version == "stale"))
        body = self.body(place, new, number)
        code, answer = self.server.one("PUT", self.path(place), body, fieldManager="other")
        if not self.known(place, code, answer):
            return
        if version == "stale":
            assert (code, answer["reason"]) == (409, "Conflict")
        elif version is None:
            assert (code, answer["reason"]) == (422, "Invalid")
        else:
            self.changed(place, code, answer, new)

    @rule(place=PLACES, size=SIZES, version=st.sampled_from(["fresh", "stale", None]), dry=st.booleans())
    def merge_patch(self, place: tuple[str, str], size: int, version: str | None, dry: bool) -> None:
        old = self.widgets.get(place)
        patch: Any = {"spec": {"size": size}}
        if version:
            number = (old.version if old else 1) - (version == "stale")
            patch["metadata"] = {"resourceVersion": str(number)}
        query = {"fieldManager": "other"} | ({"dryRun": "All"} if dry else {})
        code, answer = self.server.one("PATCH", self.path(place), patch, MERGE, **query)
        if not self.known(place, code, answer):
            return
        if version == "stale":
            assert (code, answer["reason"]) == (409, "Conflict")
        elif dry:
            assert (code, answer["spec"]["size"]) == (200, size)
        else:
            new = copy.deepcopy(self.widgets[place])
            new.own("size", size, UPDATER)
            self.changed(place, code, answer, new)

    @rule(place=PLACES, expected=SIZES, size=SIZES)
    def json_patch(self, place: tuple[str, str], expected: int, size: int) -> None:
        patch = [
            {"op": "test", "path": "/spec/size", "value": expected},
            {"op": "replace", "path": "/spec/size", "value": size},
        ]
        code, answer = self.server.one("PATCH", self.path(place), patch, JSON, fieldManager="other")
        if not self.known(place, code, answer):
            return
        if self.widgets[place].size != expected:
            assert (code, answer["reason"]) == (422, "Invalid")
            return
        new = copy.deepcopy(self.widgets[place])
        new.own("size", size, UPDATER)
        self.changed(place, code, answer, new)

    @rule(
        place=PLACES,
        manager=st.sampled_from(["m1", "m2"]),
        color=COLORS,
        size=st.none() | SIZES,
        force=st.booleans(),
    )
    def apply(self, place: tuple[str, str], manager: str, color: str, size: int | None, force: bool) -> None:
        wanted = {"color": color} | ({} if size is None else {"size": size})
        body = {
            "apiVersion": "test.example/v1",
            "kind": "Widget",
            "metadata": {"name": place[1]},
            "spec": wanted,
        }
        query = {"fieldManager": manager, "force": str(force).lower()}
        code, answer = self.server.one("PATCH", self.path(place), body, APPLY, **query)
        who = (manager, "Apply")
        if (old := self.widgets.get(place)) is None:
            assert code == 201
            new = Widget(0, "", color, 1 if size is None else size)
            self.created(place, answer, new, who)
            new.owners = {name: {who} if name in wanted else set() for name in ("color", "size")}
            return
        new = copy.deepcopy(old)
        against = [n for n, v in wanted.items() if getattr(old, n) != v and old.owners[n] - {who}]
        if against and not force:
            assert (code, answer["reason"]) == (409, "Conflict")
            assert len(answer["details"]["causes"]) == sum(len(old.owners[name] - {who}) for name in against)
            return
        for name, value in wanted.items():
            if name in against:
                new.owners[name] = set()
            new.owners[name] = new.owners[name] | {who}
            setattr(new, name, value)
        if size is None and who in old.owners["size"]:
            new.owners["size"] = old.owners["size"] - {who}
            if not new.owners["size"]:
                new.size = 1  # nobody wants it any more, so the default is back
        self.changed(place, code, answer, new)

    @rule(place=PLACES, phase=st.sampled_from(["Up", "Down"]), sneak=st.booleans())
    def status(self, place: tuple[str, str], phase: str, sneak: bool) -> None:
        """The status subresource changes the status alone, and no generation."""
        patch: Any = {"status": {"phase": phase}} | ({"spec": {"size": 3}} if sneak else {})
        code, answer = self.server.one("PATCH", self.path(place) + "/status", patch, MERGE)
        if self.known(place, code, answer):
            new = copy.deepcopy(self.widgets[place])
            new.phase = phase
            self.changed(place, code, answer, new)

    @rule(place=PLACES, held=st.booleans())
    def finalizers(self, place: tuple[str, str], held: bool) -> None:
        """The last finalizer that goes takes a deleted object with it; none may come to it."""
        patch = {"metadata": {"finalizers": [HOLD] if held else None}}
        code, answer = self.server.one("PATCH", self.path(place), patch, MERGE)
        if not self.known(place, code, answer):
            return
        new = copy.deepcopy(self.widgets[place])
        new.held = held
        self.changed(place, code, answer, new)

    @rule(place=PLACES)
    def finalizers_do_not_come_to_the_deleted(self, place: tuple[str, str]) -> None:
        widget = self.widgets.get(place)
        patch = {"metadata": {"finalizers": [HOLD, "test.example/late"]}}
        if widget and widget.deleting:
            code, answer = self.server.one("PATCH", self.path(place), patch, MERGE)
            assert (code, answer["reason"]) == (422, "Invalid")

    @rule(
        place=PLACES,
        uid=st.sampled_from(["same", "other", None]),
        version=st.sampled_from([0, -1, None]),
        dry=st.booleans(),
    )
    def delete(self, place: tuple[str, str], uid: str | None, version: int | None, dry: bool) -> None:
        old = self.widgets.get(place)
        preconditions: dict[str, str] = {}
        if uid:
            preconditions["uid"] = old.uid if old and uid == "same" else "another"
        if version is not None:
            preconditions["resourceVersion"] = str((old.version if old else 5) + version)
        body: Any = {"preconditions": preconditions} | ({"dryRun": ["All"]} if dry else {})
        code, answer = self.server.one("DELETE", self.path(place), body)
        if not self.known(place, code, answer):
            return
        if uid == "other" or version == -1:
            assert (code, answer["reason"]) == (409, "Conflict")
        elif not dry:
            self.deleted(place, code, answer)
        else:
            assert code == 200

    def deleted(self, place: tuple[str, str], code: int, answer: Any) -> None:
        old = self.widgets[place]
        new = copy.deepcopy(old)
        assert code == 200
        if not old.held:
            assert (answer["status"], answer["details"]["uid"]) == ("Success", old.uid)
            new.version = self.server.parts.store.revision
            self.wrote(place, answer, new, old, "DELETED")
        elif not old.deleting:
            new.deleting, new.version = True, int(answer["metadata"]["resourceVersion"])
            new.generation += 1
            self.wrote(place, answer, new, old, "MODIFIED")
        else:
            self.agrees(answer, place, old)

    @rule(namespace=st.sampled_from(["default", "second"]), tier=st.sampled_from("xy"))
    def delete_collection(self, namespace: str, tier: str) -> None:
        places = sorted(p for p, w in self.widgets.items() if p[0] == namespace and w.tier == tier)
        code, answer = self.server.one(
            "DELETE", self.path((namespace, ""), False), labelSelector=f"tier={tier}"
        )
        assert code == 200
        assert [item["metadata"]["name"] for item in answer["items"]] == [name for _, name in places]
        version = self.version
        for place, item in zip(places, answer["items"], strict=True):
            old = self.widgets[place]
            new = copy.deepcopy(old)
            if old.held and old.deleting:
                continue
            version += 1
            new.version = version
            new.deleting, new.generation = old.held, old.generation + old.held
            self.wrote(place, item, new, old, "MODIFIED" if old.held else "DELETED")

    @rule(place=PLACES, writers=st.integers(2, 4), kind=st.sampled_from(["create", "update"]))
    def at_once(self, place: tuple[str, str], writers: int, kind: str) -> None:
        """Of several who create a name, or update from the same version, one wins."""
        old = self.widgets.get(place)
        if kind == "create":
            bodies = [self.body(place, Widget(0, "", "red", size), None) for size in range(writers)]
            answers = self.server.all(
                *(("POST", self.path(place, False), body, "application/json", {}) for body in bodies)
            )
            won = [(size, answer) for size, (code, answer) in enumerate(answers) if code == 201]
            assert len(won) == (0 if old else 1)
            assert all(code in (201, 409) for code, _ in answers)
            for size, made in won:
                self.created(place, made, Widget(0, "", "red", size))
        elif old:
            news = [copy.deepcopy(old) for _ in range(writers)]
            for number, new in enumerate(news):
                new.own("size", old.size + 1 + number, UPDATER)
            bodies = [self.body(place, new, str(old.version)) for new in news]
            asked = [
                ("PUT", self.path(place), body, "application/json", {"fieldManager": "other"})
                for body in bodies
            ]
            answers = self.server.all(*asked)
            assert sorted(code for code, _ in answers) == [200] + [409] * (writers - 1)
            winner = next(number for number, (code, _) in enumerate(answers) if code == 200)
            self.changed(place, 200, answers[winner][1], news[winner])

    @rule(places=st.lists(PLACES, min_size=2, max_size=4), size=SIZES)
    def patches_at_once(self, places: list[tuple[str, str]], size: int) -> None:
        """Patches without a version all succeed, one after another in the order of their versions."""
        numbers = [(size + number) % 7 for number in range(len(places))]
        asked = [
            ("PATCH", self.path(place), {"spec": {"size": number}}, MERGE, {"fieldManager": "other"})
            for place, number in zip(places, numbers, strict=True)
        ]
        answered = list(zip(places, numbers, self.server.all(*asked), strict=True))
        present = [item for item in answered if self.known(item[0], *item[2])]
        for place, number, (code, answer) in sorted(present, key=_version_of):
            new = copy.deepcopy(self.widgets[place])
            if int(answer["metadata"]["resourceVersion"]) <= self.version and new.size == number:
                continue  # somebody had written the same value
            new.own("size", number, UPDATER)
            self.changed(place, code, answer, new)

    # -- what clients see

    @rule(limit=st.integers(1, 4), namespace=st.sampled_from(["default", "second", ""]), tier=TIERS)
    def list_in_pages(self, limit: int, namespace: str, tier: str | None) -> None:
        path = f"{GROUP}/namespaces/{namespace}/widgets" if namespace else f"{GROUP}/widgets"
        query = {"limit": str(limit)} | ({"labelSelector": f"tier={tier}"} if tier else {})
        items: list[Any] = []
        token = ""
        while True:
            code, page = self.server.one("GET", path, **query, **({"continue": token} if token else {}))
            assert code == 200
            assert len(page["items"]) <= limit
            assert int(page["metadata"]["resourceVersion"]) == self.version
            items += page["items"]
            if not (token := page["metadata"].get("continue", "")):
                break
        wanted = [
            (place, widget)
            for place, widget in sorted(self.widgets.items())
            if namespace in ("", place[0]) and tier in (None, widget.tier)
        ]
        assert len(items) == len(wanted)
        for item, (place, widget) in zip(items, wanted, strict=True):
            self.agrees(item, place, widget)

    @rule(place=PLACES)
    def read(self, place: tuple[str, str]) -> None:
        code, obj = self.server.one("GET", self.path(place))
        if self.known(place, code, obj):
            self.agrees(obj, place, self.widgets[place])

    @rule(back=st.integers(0, 2 * LOG_EVENTS), namespace=st.sampled_from(["default", ""]), tier=TIERS)
    def watch(self, back: int, namespace: str, tier: str | None) -> None:
        """From any version of the past a watch tells all that came after, or that it is too old."""
        since = max(self.version - back, 1)
        path = f"{GROUP}/namespaces/{namespace}/widgets" if namespace else f"{GROUP}/widgets"
        query = {"labelSelector": f"tier={tier}"} if tier else {}
        events = self.server.events(path, resourceVersion=str(since), **query)
        later = [told for told in self.told if told.version > since]
        if events and events[0]["type"] == "ERROR":
            assert (events[0]["object"]["code"], len(events)) == (410, 1)
            assert since < self.start or len(later) > LOG_EVENTS // 2
            return
        assert since >= self.start
        wanted = list(_seen(later, namespace, tier))
        assert len(events) == len(wanted)
        for event, (type_, told, state) in zip(events, wanted, strict=True):
            assert event["type"] == type_
            shown = copy.deepcopy(state)
            shown.version = told.version
            self.agrees(event["object"], told.place, shown)

    @rule()
    def watch_from_now(self) -> None:
        """A watch without a version begins with all objects, and without a gap to what follows."""
        events = self.server.events(f"{GROUP}/widgets")
        assert [event["type"] for event in events] == ["ADDED"] * len(self.widgets)
        for event, (place, widget) in zip(events, sorted(self.widgets.items()), strict=True):
            self.agrees(event["object"], place, widget)

    @precondition(lambda self: len(self.told) > 5)
    @rule()
    def restart(self) -> None:
        """What was there is there; what was told before has to be listed again."""
        self.server.restart()
        assert self.server.parts.store.revision == self.version
        self.start, self.told = self.version, []

    @invariant()
    def the_version_is_that_of_the_last_write(self) -> None:
        assert self.server.parts.store.told == self.server.parts.store.revision == self.version
        assert self.server.parts.hub.statistics()["watchers"] == 0


def _version_of(item: tuple[Any, int, tuple[int, Any]]) -> int:
    return int(item[2][1]["metadata"]["resourceVersion"])


def _seen(later: list[Told], namespace: str, tier: str | None) -> Iterator[tuple[str, Told, Widget]]:
    """The events as a watcher with a selection sees them: type, event, state that is shown."""
    for told in later:
        if namespace not in ("", told.place[0]):
            continue
        was = told.before is not None and tier in (None, told.before.tier)
        is_ = told.type != "DELETED" and tier in (None, told.state.tier)
        if is_:
            yield ("MODIFIED" if was else "ADDED"), told, told.state
        elif was and told.before:
            yield "DELETED", told, told.state if told.type == "DELETED" else told.before


def test_the_server_agrees_with_the_model(widget_definition: Any) -> None:
    """Creates, updates, patches, applies, deletes, lists and watches in any order, and at once."""

    class Machine(Histories):
        definition = widget_definition

    checks = [HealthCheck.too_slow, HealthCheck.data_too_large]
    bounded = settings(
        max_examples=EXAMPLES, stateful_step_count=STEPS, deadline=None, suppress_health_check=checks
    )
    run_state_machine_as_test(Machine, settings=bounded)  # type: ignore[no-untyped-call]
