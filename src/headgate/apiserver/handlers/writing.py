"""Writes of objects: small ones inline, large ones in a helper process, both validated by the judge if
needed.

A write reads the current object, creates the new one and has it validated, all in one go. If the judge has no
answer yet, nothing was changed: the answer is awaited, and the write is repeated from the beginning. It
succeeds when all its questions are answered, so that what is stored was validated, whatever was written in
the meantime. A write that names a resource version may find it outdated, and gets 409 as usual.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from headgate.apiserver import admission, errors, patch
from headgate.apiserver.calls import Call
from headgate.apiserver.handlers import bodies, changes
from headgate.apiserver.handlers.changes import Change
from headgate.apiserver.handlers.large_write_messages import Asked, Unanswered
from headgate.apiserver.handlers.large_writes import LargeWrites
from headgate.apiserver.judge import Question, UnansweredError
from headgate.apiserver.objects import Objects, Outcome
from headgate.apiserver.registry import Registry
from headgate.apiserver.targets import Target
from headgate.kubeschema.structural import FieldError

ATTEMPTS = 5
"""As often as Kubernetes retries a patch of an object that is also being written by others."""
CROWDED = (
    f"the object was changed {ATTEMPTS} times by others while it was judged by the rules of its definition; "
    "please try again"
)
LARGE_BYTES: Final = 16 * 1024
"""Size of a body, or of the object that it changes, above which the helper process computes the write."""
LARGE_DEFINITION_BYTES: Final = 64 * 1024
"""Size of a kind's definition: its schema is compiled when the first object arrives."""
LARGE_ADDED_BYTES: Final = 32 * 1024
"""Size of the defaults that a write adds to an object (`[{}, {}]` can grow a hundredfold), and of what a JSON
patch copies (twenty copies can add megabytes).
"""


@dataclass(frozen=True)
class Answer:
    """The response to a write: the object as JSON, warnings for the client, whether it was created."""

    body: bytes
    warnings: Sequence[str]
    created: bool

    @classmethod
    def of(cls, outcome: Outcome) -> Answer:
        body = msgspec.json.encode(outcome.obj) if outcome.body is None else outcome.body
        return cls(body, outcome.warnings, outcome.created)


@dataclass(frozen=True)
class Writer:
    """Performs the writes of clients."""

    objects: Objects
    large: LargeWrites

    async def write(self, call: Call, target: Target, change: Change) -> Answer:
        """The response to the write, once it is computed and the judge has answered all its questions."""
        target = _as_served_now(self.objects.registry, target)
        if self._is_large(target, change):
            return await self._write_large(call, target, change)
        try:
            body, complaints = changes.decode(change, quickly=True)
            return await self._write_small(call, target, change, body, complaints)
        except (bodies.SlowYAMLError, admission.SlowDefaultsError, patch.SlowPatchError):
            return await self._write_large(call, target, change)

    def _is_large(self, target: Target, change: Change) -> bool:
        if len(change.body) > LARGE_BYTES or target.served.definition_bytes > LARGE_DEFINITION_BYTES:
            return True
        stored = self.objects.store.get(target.key) if target.name else None
        return stored is not None and len(stored.body) > LARGE_BYTES

    async def _write_small(
        self, call: Call, target: Target, change: Change, body: Any, complaints: list[str]
    ) -> Answer:
        objects = self.objects
        if not objects.judge.may_ask(target.served):
            with objects.adding_at_most(LARGE_ADDED_BYTES):
                return Answer.of(changes.write(objects, target, change, body, complaints))
        answers: dict[bytes, list[FieldError]] = {}
        for _ in range(ATTEMPTS):
            own = _copied(body)
            try:
                with objects.judge.knowing(answers), objects.adding_at_most(LARGE_ADDED_BYTES):
                    return Answer.of(changes.write(objects, target, change, own, complaints))
            except UnansweredError as error:
                questions = error.questions
            if not target.name and (name := own["metadata"].get("name")):
                # It may be derived from generateName, and is part of what is validated.
                body["metadata"] = (body.get("metadata") or {}) | {"name": name}
            del own
            await self._ask(call, questions, answers)
            target = _as_served_now(objects.registry, target)
        raise target.conflict(CROWDED)

    async def _write_large(self, call: Call, target: Target, change: Change) -> Answer:
        """Compute and validate it in other processes until the result can be stored."""
        answers: dict[bytes, list[FieldError]] = {}
        name = ""
        for _ in range(ATTEMPTS):
            compute = functools.partial(self.large.compute, target, change, answers, name)
            computed = await call.computed(compute)
            await call.next_turn()
            if not isinstance(computed, Unanswered):
                if (body := self.large.store(computed)) is not None:
                    return Answer(body, computed.made.warnings, computed.made.created)
            elif (questions := self._questions(target, computed.questions)) is not None:
                name = computed.made_name
                await self._ask(call, questions, answers)
            target = _as_served_now(self.objects.registry, target)
        raise target.conflict(CROWDED)

    def _questions(self, target: Target, asked: Sequence[Asked]) -> list[Question] | None:
        """The questions with their schemas; None if the definition has changed since they were asked."""
        schema = target.served.schema
        if any(each.is_of_kind and each.digest != self.objects.judge.costly(target.served) for each in asked):
            return None
        return [
            Question(
                each.what, each.field, each.digest, schema if each.is_of_kind else None, each.task, each.key
            )
            for each in asked
        ]

    async def _ask(
        self, call: Call, questions: Sequence[Question], answers: dict[bytes, list[FieldError]]
    ) -> None:
        for question in questions:
            answers[question.key] = await call.judged(functools.partial(self.objects.judge.answer, question))
        await call.next_turn()


def _copied(value: Any) -> Any:
    """A deep copy of JSON values, in a fifth of the time of copy.deepcopy."""
    if isinstance(value, dict):
        return {name: _copied(inner) for name, inner in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value


def _as_served_now(registry: Registry, target: Target) -> Target:
    """The target with the current definition of its kind, which may have changed since the request began."""
    was = target.served
    served = registry.find(was.group, was.version, was.plural)
    if served is None or (target.subresource and target.subresource not in served.all_subresources):
        raise errors.no_such_path()
    return target if served is was else replace(target, served=served)
