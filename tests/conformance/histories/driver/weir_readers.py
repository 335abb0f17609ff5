"""Readers beside the writers: lists in pages, reads, and watches from any moment, read when they like."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import weir_model
from api_server import MERGE, Watching
from hypothesis import strategies as st
from hypothesis.stateful import rule
from weir_history import END, Place, Selection, Start, check, check_event
from weir_strategies import WIDTH
from weir_writers import EDITOR, GROUP, SEATS, Writers

AFRESH = 12
"""A watch from so many writes ago is never too late."""
MAX_OPEN = 3
SELECTIONS = st.tuples(st.sampled_from([0, 0, 1, None]), st.sampled_from(["x", "y", None, None]))


@dataclass
class Open:
    """A watch, and how far it has been read."""

    watching: Watching
    selection: Selection
    writes: int
    """Of the history, that it has told."""
    version: int
    may_be_expired: bool
    bookmark: Start | None = None


class Readers(Writers):
    """Whatever is written, what is read is what the model has.

    When bookmarks come, and when a watch is too late, is for the server to say. So no rule depends on that.
    """

    def __init__(self) -> None:
        super().__init__()
        self.watches: list[Open] = []
        self.touches = 0

    def teardown(self) -> None:
        try:
            if sys.exc_info()[0] is None:  # otherwise what failed before is what counts
                self.read_watches()
                for namespace in self.namespaces:
                    self.compare_list(Selection(namespace, None))
        finally:
            while self.watches:
                self.watches.pop().watching.close()
            super().teardown()

    def selection(self, choice: tuple[int | None, str | None]) -> Selection:
        number, tier = choice
        return Selection("" if number is None else self.namespaces[number], tier)

    def list_path(self, selection: Selection) -> str:
        return f"{GROUP}/namespaces/{selection.namespace}/weirs" if selection.namespace else f"{GROUP}/weirs"

    def query(self, selection: Selection) -> dict[str, str]:
        selector = selection.selector(self.history.name)
        return {"labelSelector": selector} if selector else {}

    def touch(self, namespace: str) -> None:
        """Changes the object of this namespace that marks how far a watch is read."""
        place = Place(namespace, f"{self.history.name}-{END}")
        self.touches += 1
        answer = self.server.ask(
            "PATCH", self.path(place), {"spec": {"width": self.touches}}, MERGE, fieldManager=EDITOR.name
        )
        old = self.history.present[place]
        self.wrote(place, answer, weir_model.written(old, {**old.fields, WIDTH: self.touches}, EDITOR))

    # -- rules

    @rule(seat=SEATS)
    def read(self, seat: tuple[int, str]) -> None:
        place = self.place(seat)
        answer = self.server.ask("GET", self.path(place))
        if (weir := self.here(place, answer)) is not None:
            assert answer.code == 200
            check(answer.body, place, weir)

    @rule(choice=SELECTIONS, limit=st.sampled_from([1, 2, 50]), between=st.booleans())
    def list_in_pages(self, choice: tuple[int | None, str | None], limit: int, between: bool) -> None:
        """All pages show one moment, whatever is written between them."""
        selection = self.selection(choice)
        wanted = self.history.selected(selection)
        query = {"limit": str(limit)} | self.query(selection)
        page = self.server.ask("GET", self.list_path(selection), **query)
        self.history.read(page.version)
        items, version = page.body["items"], page.version
        while token := page.body["metadata"].get("continue"):
            if between:
                self.touch(self.namespaces[0])
            page = self.server.ask("GET", self.list_path(selection), **query, **{"continue": token})
            assert (page.code, page.version) == (200, version)
            assert len(page.body["items"]) <= limit
            items += page.body["items"]
        self.compare(items, wanted)

    def compare_list(self, selection: Selection) -> None:
        listed = self.server.ask("GET", self.list_path(selection), **self.query(selection))
        self.compare(listed.body["items"], self.history.selected(selection))

    def compare(self, items: list[Any], wanted: list[Any]) -> None:
        assert [item["metadata"]["name"] for item in items] == [place.name for place, _ in wanted]
        for item, (place, weir) in zip(items, wanted, strict=True):
            check(item, place, weir)

    @rule(choice=SELECTIONS, back=st.integers(0, 40), bookmarks=st.booleans())
    def watch(self, choice: tuple[int | None, str | None], back: int, bookmarks: bool) -> None:
        """From any version of the past a watch tells all that came after, or that it is too old."""
        if len(self.watches) == MAX_OPEN:
            return
        start = self.history.starts[max(0, len(self.history.starts) - 1 - back)]
        self.open(self.selection(choice), start, bookmarks)

    @rule(choice=SELECTIONS)
    def watch_from_now(self, choice: tuple[int | None, str | None]) -> None:
        """Without a version it begins with all objects, and goes on without a gap."""
        if len(self.watches) == MAX_OPEN:
            return
        selection = self.selection(choice)
        watching = self.server.watch(self.list_path(selection), **self.query(selection))
        wanted = dict(self.history.selected(selection))
        self.watches.append(
            Open(watching, selection, len(self.history.told), self.history.version, may_be_expired=False)
        )
        for _ in range(len(wanted)):
            event = watching.event()
            assert event["type"] == "ADDED"
            meta = event["object"]["metadata"]
            place = Place(meta["namespace"], meta["name"])
            check(event["object"], place, wanted.pop(place))

    def open(self, selection: Selection, start: Start, bookmarks: bool) -> None:
        query = {"resourceVersion": str(start.version), "allowWatchBookmarks": str(bookmarks).lower()}
        watching = self.server.watch(self.list_path(selection), **query, **self.query(selection))
        is_old = len(self.history.told) - start.writes > AFRESH
        self.watches.append(Open(watching, selection, start.writes, start.version, may_be_expired=is_old))

    @rule()
    def read_watches(self) -> None:
        """Every watch has told everything up to a last write, in order, once."""
        for namespace in self.namespaces:
            self.touch(namespace)
        for watch in list(self.watches):
            if not self.read_to_end(watch):
                self.watches.remove(watch)
                watch.watching.close()

    @rule()
    def resume(self) -> None:
        """A watch goes on from the last bookmark of another, which ends."""
        for old in self.watches[:1]:
            if old.bookmark:
                self.watches.remove(old)
                old.watching.close()
                self.open(old.selection, old.bookmark, bookmarks=True)

    def read_to_end(self, watch: Open) -> bool:
        """Reads up to the last write of its namespaces; False if the watch turns out to be expired."""
        wanted = list(self.history.events(watch.selection, watch.writes))
        while wanted:
            found = watch.watching.event()
            if found["type"] == "ERROR":
                assert (found["object"]["code"], found["object"]["reason"]) == (410, "Expired")
                assert watch.may_be_expired
                return False
            version = int(found["object"]["metadata"]["resourceVersion"])
            if found["type"] == "BOOKMARK":
                assert version >= watch.version
                watch.bookmark = Start(version, watch.writes)
            else:
                assert version > watch.version
                check_event(found, event := wanted.pop(0))
                watch.writes, watch.may_be_expired = event.writes, False
            watch.version = version
        watch.writes = len(self.history.told)
        return True
