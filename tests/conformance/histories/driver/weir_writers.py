"""Writers that come one after another: every kind of write, taken and refused as the model says."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import weir_fields
import weir_model
import weir_strategies as wanted_by
from api_server import APPLY, JSON, JSON_PATCH, MERGE, Answer, ApiServer
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from weir_fields import ITEM, Path
from weir_history import END, History, Place, check
from weir_model import HOLD, TIER, Manager, Weir
from weir_strategies import CHANGES, EVERYTHING, SOME_PARTS, WANTED, WIDTH, WIDTHS

GROUP = "/apis/conformance.headgate.dev/v1"
CREATOR, EDITOR, KEEPER = (Manager(name, "Update") for name in ("creator", "editor", "keeper"))
REPORTER = Manager("reporter", "Update", "status")
HISTORY: Path = ("metadata", "labels", "history")

SEATS = st.sampled_from([(0, "a"), (0, "a"), (0, "a"), (0, "b"), (1, "a")])
EDITORS = st.sampled_from([EDITOR, KEEPER])
APPLIERS = st.sampled_from(["ann", "bob", "cyd"])
MOSTLY, RARELY = st.sampled_from([True, True, False]), st.sampled_from([False, False, False, True])
VERSIONS = st.sampled_from(["fresh", "fresh", "fresh", "stale", None])
_numbers = itertools.count(1)


class Writers(RuleBasedStateMachine):
    """Requests to a server, and the model that says what must come of them."""

    server: ApiServer
    namespaces: tuple[str, str]

    def __init__(self) -> None:
        super().__init__()
        listed = self.server.ask("GET", f"{GROUP}/weirs", limit="1")
        self.history = History(f"h{next(_numbers)}", listed.version)
        for namespace in self.namespaces:
            place = Place(namespace, f"{self.history.name}-{END}")
            answer = self.post(place, self.labelled({WIDTH: 0, TIER: END}))
            self.created(place, answer, self.labelled({WIDTH: 0, TIER: END}))
        everything = self.labelled(wanted_by.fields_of(EVERYTHING))
        for name in ("ann", "bob"):
            self.apply_fields(self.place((0, "a")), name, everything, force=False, dry=False)

    def teardown(self) -> None:
        """Whatever has become of it, nothing of the history stays."""
        listed = self.server.ask("GET", f"{GROUP}/weirs", labelSelector=f"history={self.history.name}")
        for item in listed.body["items"]:
            meta = item["metadata"]
            path = self.path(Place(meta["namespace"], meta["name"]))
            if "deletionTimestamp" not in meta:
                self.server.ask("DELETE", path)
            if "finalizers" in meta:
                self.server.ask("PATCH", path, {"metadata": {"finalizers": None}}, MERGE)

    # -- words of the rules

    def place(self, seat: tuple[int, str]) -> Place:
        return Place(self.namespaces[seat[0]], f"{self.history.name}-{seat[1]}")

    def path(self, place: Place, name: bool = True) -> str:
        return f"{GROUP}/namespaces/{place.namespace}/weirs" + (f"/{place.name}" if name else "")

    def labelled(self, fields: dict[Path, Any]) -> dict[Path, Any]:
        return {HISTORY: self.history.name} | fields

    def body(self, place: Place, fields: weir_fields.Fields, **metadata: str) -> Any:
        meta = {"name": place.name, **weir_fields.metadata_of(fields), **metadata}
        spec = weir_fields.spec_of(fields)
        return {"apiVersion": "conformance.headgate.dev/v1", "kind": "Weir", "metadata": meta, "spec": spec}

    def post(self, place: Place, fields: dict[Path, Any], **query: str) -> Answer:
        body = self.body(place, fields)
        return self.server.ask(
            "POST", self.path(place, False), body, JSON, fieldManager=CREATOR.name, **query
        )

    def here(self, place: Place, answer: Answer) -> Weir | None:
        """The object that the answer is about; without one it must be 404."""
        if place not in self.history.present:
            assert answer.refusal == (404, "NotFound")
            return None
        return self.history.present[place]

    def created(self, place: Place, answer: Answer, fields: dict[Path, Any]) -> None:
        assert answer.code == 201, answer
        self.wrote(place, answer, weir_model.created(fields, CREATOR))

    def wrote(self, place: Place, answer: Answer, weir: Weir) -> None:
        """Notes a write that must have been taken; one that changes nothing has no version of its own."""
        old = self.history.present.get(place)
        assert answer.code in (200, 201), answer
        if old and weir.same_as(old):
            check(answer.body, place, old)
        elif weir.over:
            assert answer.body["metadata"]["uid"] == weir.uid
            self.history.removed(place)
        else:
            uid = old.uid if old else answer.body["metadata"]["uid"]
            new = replace(weir, version=answer.version, uid=uid)
            check(answer.body, place, new)
            self.history.wrote(place, new)

    def shown(self, answer: Answer, weir: Weir) -> None:
        """A dry run shows what would be."""
        assert answer.code in (200, 201), answer
        assert weir_fields.flat(answer.body) == weir.fields

    # -- rules

    @rule(seat=SEATS, parts=WANTED, held=st.booleans(), dry=RARELY)
    def create(self, seat: tuple[int, str], parts: dict[str, Any], held: bool, dry: bool) -> None:
        place = self.place(seat)
        fields = self.labelled(wanted_by.fields_of(parts)) | ({HOLD: ITEM} if held else {})
        answer = self.post(place, fields, **({"dryRun": "All"} if dry else {}))
        if place in self.history.present:
            assert answer.refusal == (409, "AlreadyExists")
        elif dry:
            self.shown(answer, weir_model.created(fields, CREATOR))
        else:
            self.created(place, answer, fields)

    @rule(seat=SEATS, parts=WANTED, version=VERSIONS)
    def update(self, seat: tuple[int, str], parts: dict[str, Any], version: str | None) -> None:
        """A PUT has a version, the present one, and replaces all but what the server keeps."""
        place = self.place(seat)
        old = self.history.present.get(place)
        fields = self.labelled(wanted_by.fields_of(parts)) | ({HOLD: ITEM} if old and old.held else {})
        number = (old.version if old else 2) - (version == "stale")
        body = self.body(place, fields, **({"resourceVersion": str(number)} if version else {}))
        answer = self.server.ask("PUT", self.path(place), body, JSON, fieldManager=EDITOR.name)
        if self.here(place, answer) is None or old is None:
            return
        if version is None:
            assert answer.refusal == (422, "Invalid")
        elif version == "stale":
            assert answer.refusal == (409, "Conflict")
        else:
            self.wrote(place, answer, weir_model.written(old, fields, EDITOR))

    @rule(seat=SEATS, changes=CHANGES, who=EDITORS, version=VERSIONS, dry=RARELY)
    def merge_patch(
        self, seat: tuple[int, str], changes: dict[str, Any], who: Manager, version: str | None, dry: bool
    ) -> None:
        """With a version it is for that one; without, for whatever is there."""
        self.change(self.place(seat), changes, who, version, dry)

    @rule(seat=SEATS, board=st.sampled_from(["board a", "board b"]), thickness=st.integers(1, 3))
    def saw(self, seat: tuple[int, str], board: str, thickness: int) -> None:
        """Changes what is in an item of a list, which the item's owners keep owning."""
        self.change(self.place(seat), {board: {"thickness": thickness}}, EDITOR, None, dry=False)

    def change(
        self, place: Place, changes: dict[str, Any], who: Manager, version: str | None, dry: bool
    ) -> None:
        old = self.history.present.get(place)
        before = dict(old.fields) if old else {}
        after = wanted_by.changed(before, changes)
        patch = wanted_by.merge_patch(self.body(place, before), self.body(place, after))
        if version:
            number = (old.version if old else 2) - (version == "stale")
            patch.setdefault("metadata", {})["resourceVersion"] = str(number)
        query = {"fieldManager": who.name} | ({"dryRun": "All"} if dry else {})
        answer = self.server.ask("PATCH", self.path(place), patch, MERGE, **query)
        if self.here(place, answer) is None or old is None:
            return
        new = weir_model.written(old, after, who)
        if version == "stale":
            assert answer.refusal == (409, "Conflict")
        elif dry:
            self.shown(answer, new)
        else:
            self.wrote(place, answer, new)

    @rule(seat=SEATS, expected=WIDTHS, width=WIDTHS, note=st.sampled_from(["1", "2", None]))
    def json_patch(self, seat: tuple[int, str], expected: int, width: int, note: str | None) -> None:
        """All of its operations, or none of them."""
        place = self.place(seat)
        last = {"op": "add", "value": {"a": note}} if note else {"op": "remove"}
        patch = [
            {"op": "test", "path": "/spec/width", "value": expected},
            {"op": "replace", "path": "/spec/width", "value": width},
            {"path": "/spec/notes", **last},
        ]
        answer = self.server.ask("PATCH", self.path(place), patch, JSON_PATCH, fieldManager=EDITOR.name)
        if (old := self.here(place, answer)) is None:
            return
        has_notes = "notes" in weir_fields.spec_of(old.fields)
        if old.fields[WIDTH] != expected or not (note or has_notes):
            assert answer.refusal == (422, "Invalid")
            return
        fields = {path: value for path, value in old.fields.items() if path[:2] != ("spec", "notes")}
        fields |= wanted_by.fields_of({"width": width} | ({"note a": note} if note else {}))
        self.wrote(place, answer, weir_model.written(old, fields, EDITOR))

    @rule(seat=SEATS, name=APPLIERS, parts=WANTED, force=MOSTLY, dry=RARELY)
    def apply(self, seat: tuple[int, str], name: str, parts: dict[str, Any], force: bool, dry: bool) -> None:
        """What somebody wants, whatever others want."""
        self.apply_fields(self.place(seat), name, self.labelled(wanted_by.fields_of(parts)), force, dry)

    @rule(seat=SEATS, name=APPLIERS, parts=SOME_PARTS)
    def join(self, seat: tuple[int, str], name: str, parts: set[str]) -> None:
        """Wants some of what is there as well, as it is: nobody objects, and all of them own it."""
        place = self.place(seat)
        if (old := self.history.present.get(place)) is not None:
            own = old.owners.get(Manager(name, "Apply"), frozenset())
            wanted = {path: old.fields[path] for path in own} | wanted_by.chosen(dict(old.fields), parts)
            self.apply_fields(place, name, self.labelled(wanted), force=False, dry=False)

    @rule(seat=SEATS, name=APPLIERS, parts=SOME_PARTS)
    def leave(self, seat: tuple[int, str], name: str, parts: set[str]) -> None:
        """Wants some of what he wanted no longer: it stays if others own it, and goes otherwise."""
        place = self.place(seat)
        if (old := self.history.present.get(place)) is not None:
            own = {path: old.fields[path] for path in old.owners.get(Manager(name, "Apply"), ())}
            kept = wanted_by.changed(own, dict.fromkeys(parts)) | {WIDTH: old.fields[WIDTH]}
            self.apply_fields(place, name, self.labelled(kept), force=False, dry=False)

    def apply_fields(self, place: Place, name: str, wanted: dict[Path, Any], force: bool, dry: bool) -> None:
        query = {"fieldManager": name, "force": str(force).lower()} | ({"dryRun": "All"} if dry else {})
        answer = self.server.ask("PATCH", self.path(place), self.body(place, wanted), APPLY, **query)
        who, old = Manager(name, "Apply"), self.history.present.get(place)
        if old is None:
            assert answer.code == 201, answer
            new = weir_model.applied_new(wanted, who)
        elif (conflicts := weir_model.conflicts(old, wanted, who)) and not force:
            assert answer.refusal == (409, "Conflict")
            causes = answer.body["details"]["causes"]
            assert {cause["reason"] for cause in causes} == {"FieldManagerConflict"}
            assert {(cause["message"].split('"')[1], cause["field"]) for cause in causes} == conflicts
            return
        else:
            new = weir_model.applied(old, wanted, who)
        if dry:
            self.shown(answer, new)
        else:
            self.wrote(place, answer, new)

    @rule(seat=SEATS, state=st.sampled_from(["open", "shut"]), sneak=RARELY)
    def report(self, seat: tuple[int, str], state: str, sneak: bool) -> None:
        """The status subresource changes the status alone."""
        place = self.place(seat)
        patch = {"status": {"state": state}} | ({"spec": {"width": 99}} if sneak else {})
        path = self.path(place) + "/status"
        answer = self.server.ask("PATCH", path, patch, MERGE, fieldManager=REPORTER.name)
        if (old := self.here(place, answer)) is not None:
            self.wrote(place, answer, weir_model.with_state(old, state, REPORTER))

    @rule(seat=SEATS, held=st.booleans())
    def finalizers(self, seat: tuple[int, str], held: bool) -> None:
        """The last finalizer that goes takes a deleted object with it; none may come to it."""
        place = self.place(seat)
        patch = {"metadata": {"finalizers": [weir_fields.HELD_BY] if held else None}}
        answer = self.server.ask("PATCH", self.path(place), patch, MERGE, fieldManager=KEEPER.name)
        if (old := self.here(place, answer)) is None:
            return
        fields = {path: value for path, value in old.fields.items() if path != HOLD}
        new = weir_model.written(old, fields | ({HOLD: ITEM} if held else {}), KEEPER)
        self.wrote(place, answer, new)

    @rule(seat=SEATS)
    def late_finalizers(self, seat: tuple[int, str]) -> None:
        place = self.place(seat)
        old = self.history.present.get(place)
        if old and old.deleting:
            patch = {"metadata": {"finalizers": [weir_fields.HELD_BY, "conformance.headgate.dev/late"]}}
            answer = self.server.ask("PATCH", self.path(place), patch, MERGE)
            assert answer.refusal == (422, "Invalid")

    @rule(
        seat=SEATS,
        uid=st.sampled_from(["same", "same", "other", None]),
        version=VERSIONS,
        dry=RARELY,
    )
    def delete(self, seat: tuple[int, str], uid: str | None, version: str | None, dry: bool) -> None:
        """If it is the one that is meant; a dry run leaves it."""
        place = self.place(seat)
        old = self.history.present.get(place)
        preconditions: dict[str, str] = {}
        if uid:
            preconditions["uid"] = old.uid if old and uid == "same" else "another"
        if version:
            preconditions["resourceVersion"] = str((old.version if old else 2) - (version == "stale"))
        body = {"preconditions": preconditions} | ({"dryRun": ["All"]} if dry else {})
        answer = self.server.ask("DELETE", self.path(place), body)
        if self.here(place, answer) is None:
            return
        if uid == "other" or version == "stale":
            assert answer.refusal == (409, "Conflict")
        elif dry:
            assert answer.code == 200
        else:
            self.deleted(place, answer)

    def deleted(self, place: Place, answer: Answer) -> None:
        """Gone at once, or marked as long as it is held."""
        old = self.history.present[place]
        assert answer.code == 200, answer
        if not old.held:
            assert (answer.body["kind"], answer.body["status"]) == ("Status", "Success")
            assert answer.body["details"]["uid"] == old.uid
            self.history.removed(place)
        else:
            self.wrote(place, answer, old if old.deleting else weir_model.doomed(old))
