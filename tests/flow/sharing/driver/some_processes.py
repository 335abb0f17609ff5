"""Queues of one pool in several processes."""

import random
from collections import Counter

from headgate.flow.queue import Bounds, FlowQueue, Waiting
from headgate.flow.sharing import Charges


class Process:
    """One queue of several, with a pool of its own to send to, and what it has to tell."""

    def __init__(self, settings, capacity, processes, number):
        capacity.take_share(1.0 / processes)
        self.capacity = capacity
        self.queue = FlowQueue(settings, capacity, random.Random(1), Bounds(settings, processes, number))
        self.charges, self.came = Charges(), Counter()
        self.sent = []
        self.running = []

    def enter(self, now=0.0, flow="", priority=0, work=100, size=1):
        self.came[priority] += 1
        waiting = Waiting(
            None, flow=flow, priority=priority, work=work, size=size, arrived=now, deadline=now + 1e9
        )
        return self.queue.enter(waiting, now) is None

    def look(self, now):
        while (waiting := self.queue.next(now)) is not None:
            self.sent.append(waiting)
            self.running.append(waiting)
            self.charges.add(waiting.priority, waiting.flow, sent=waiting.work)

    def take(self, share, now):
        self.capacity.take_share(share.room)
        self.queue.bounds.take(share)
        self.queue.charge(share.charges, now)
