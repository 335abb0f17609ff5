"""Writers that come at once: whatever the order is that the server takes them in, it is one of the model."""

from __future__ import annotations

from typing import Any

import weir_model
from api_server import APPLY, JSON, MERGE, Answer, Request
from hypothesis import strategies as st
from hypothesis.stateful import rule
from weir_history import Place, check
from weir_model import Manager
from weir_strategies import WIDTH
from weir_writers import APPLIERS, CREATOR, EDITOR, SEATS, Writers

CROWD = st.integers(2, 4)


class Crowds(Writers):
    """Requests at once."""

    @rule(seat=SEATS, number=CROWD)
    def creates_at_once(self, seat: tuple[int, str], number: int) -> None:
        """Of several who create a name, one does."""
        place = self.place(seat)
        wanted = [self.labelled({WIDTH: width}) for width in range(number)]
        query = {"fieldManager": CREATOR.name}
        answers = self.server.all(
            [Request("POST", self.path(place, False), self.body(place, w), JSON, query) for w in wanted]
        )
        won = [(fields, answer) for fields, answer in zip(wanted, answers, strict=True) if answer.code == 201]
        lost = [answer.refusal for answer in answers if answer.code != 201]
        assert set(lost) <= {(409, "AlreadyExists")}
        assert len(won) == (0 if place in self.history.present else 1)
        for fields, answer in won:
            self.created(place, answer, fields)

    @rule(seat=SEATS, number=CROWD)
    def updates_at_once(self, seat: tuple[int, str], number: int) -> None:
        """Of several who update one version, one does."""
        place = self.place(seat)
        if (old := self.history.present.get(place)) is None:
            return
        wanted = [{**old.fields, WIDTH: old.fields[WIDTH] + 1 + offset} for offset in range(number)]
        query = {"fieldManager": EDITOR.name}
        bodies = [self.body(place, fields, resourceVersion=str(old.version)) for fields in wanted]
        answers = self.server.all([Request("PUT", self.path(place), body, JSON, query) for body in bodies])
        assert sorted(a.code for a in answers) == [200] + [409] * (number - 1)
        for fields, answer in zip(wanted, answers, strict=True):
            if answer.code == 200:
                self.wrote(place, answer, weir_model.written(old, fields, EDITOR))

    @rule(seats=st.lists(SEATS, min_size=2, max_size=4), width=st.integers(1, 4))
    def patches_at_once(self, seats: list[tuple[int, str]], width: int) -> None:
        """Patches without a version are all taken, one after another."""
        asked = [(self.place(seat), width + number % 3) for number, seat in enumerate(seats)]
        query = {"fieldManager": EDITOR.name}
        requests = [
            Request("PATCH", self.path(place), {"spec": {"width": value}}, MERGE, query)
            for place, value in asked
        ]
        answered = zip(asked, self.server.all(requests), strict=True)
        there = [(*one, answer) for one, answer in answered if self.here(one[0], answer)]
        for place, value, answer in sorted(there, key=lambda item: item[2].version):
            old = self.history.present[place]
            if answer.version == old.version:
                check(answer.body, place, old)  # somebody had written the same
            self.wrote(place, answer, weir_model.written(old, {**old.fields, WIDTH: value}, EDITOR))

    @rule(seat=SEATS, names=st.sets(APPLIERS, min_size=2), value=st.sampled_from("12"))
    def applies_at_once(self, seat: tuple[int, str], names: set[str], value: str) -> None:
        """Appliers of different fields do not lose each other's, even where the first of them creates."""
        place = self.place(seat)
        old = self.history.present.get(place)
        width = old.fields[WIDTH] if old else 1
        wanted = {
            name: self.labelled({WIDTH: width, ("spec", "notes", f"of-{name}"): value})
            for name in sorted(names)
        }
        requests = [
            Request("PATCH", self.path(place), self.body(place, fields), APPLY, {"fieldManager": name})
            for name, fields in wanted.items()
        ]
        answers = self.server.all(requests)
        answered = list(zip(wanted.items(), answers, strict=True))
        changing = [one for one in answered if self._changes(place, *one[0])]
        for (name, fields), answer in sorted(changing, key=lambda one: one[1].version):
            who, present = Manager(name, "Apply"), self.history.present.get(place)
            new = weir_model.applied(present, fields, who) if present else weir_model.applied_new(fields, who)
            self.wrote(place, answer, new)
        assert all(answer.code in (200, 201) for answer in answers)
        assert sum(answer.code == 201 for answer in answers) == (0 if old else 1)

    def _changes(self, place: Place, name: str, fields: Any) -> bool:
        old = self.history.present.get(place)
        return old is None or not weir_model.applied(old, fields, Manager(name, "Apply")).same_as(old)

    @rule(seat=SEATS, number=CROWD)
    def deletes_at_once(self, seat: tuple[int, str], number: int) -> None:
        """Of several who delete an object that nothing holds, one does."""
        place = self.place(seat)
        old = self.history.present.get(place)
        if old and old.held:
            return
        answers = self.server.all([Request("DELETE", self.path(place))] * number)
        assert sorted(answer.code for answer in answers) == ([200] if old else [404]) + [404] * (number - 1)
        for answer in answers:
            if answer.code == 200:
                self.deleted(place, answer)

    @rule(seat=SEATS, width=st.integers(1, 4))
    def delete_and_patch_at_once(self, seat: tuple[int, str], width: int) -> None:
        """The patch is taken before the deletion, or finds nothing; a held object takes both."""
        place = self.place(seat)
        if (old := self.history.present.get(place)) is None:
            return
        patch = {"spec": {"width": width}}
        deleted, patched = self.server.all(
            [
                Request("DELETE", self.path(place)),
                Request("PATCH", self.path(place), patch, MERGE, {"fieldManager": EDITOR.name}),
            ]
        )
        steps: list[tuple[Any, Answer]] = [(self._patched(width), patched), (self.deleted, deleted)]
        if old.held and (patched.version, not old.deleting) > (deleted.version, False):
            steps.reverse()  # of the same version is what came second and changed nothing
        for step, answer in steps if patched.code == 200 else steps[1:]:
            step(place, answer)
        assert patched.code == 200 or patched.refusal == (404, "NotFound")
        assert patched.code == 200 or not old.held

    def _patched(self, width: int) -> Any:
        def note(place: Place, answer: Answer) -> None:
            old = self.history.present[place]
            self.wrote(place, answer, weir_model.written(old, {**old.fields, WIDTH: width}, EDITOR))

        return note
