"""A shell of queues whose alarm a test rings."""

import math

from headgate.requests.queueing.hints import QueueHints


class HandShell:
    """Whose alarm a test rings. It notes what the queue reports."""

    def __init__(self):
        self.observer = self
        self.is_woken, self.due_at, self.told = False, math.inf, []

    def alarm(self, look):
        self.look = look
        return self

    def wake(self):
        self.is_woken = True

    def wake_at(self, at, now):
        self.due_at = at

    def stop(self):
        self.is_woken, self.due_at = False, math.inf

    def hints(self, life, flow_header):
        return QueueHints(flow="a")

    def size(self, life):
        return len(life.decision.body)

    def begins(self):
        return 0.0

    def entered(self, pool, place, outcome, began):
        self.told.append(outcome)

    def ended(self, pool, wait, outcome, now):
        self.told.append(outcome)

    def evicted(self, pool, priority): ...
    def looked(self, began): ...

    def wanted(self, pool):
        self.told.append("wanted")

    def starves(self, pool, wait_s):
        self.told.append("starves")

    def recovers(self, pool):
        self.told.append("recovers")

    def failed(self, pool, what):
        raise
