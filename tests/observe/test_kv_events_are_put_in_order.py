"""Messages of KV events are numbered: none is taken twice, and none is missed unnoticed."""

from headgate.observe.kv_events.order import Order


def test_messages_are_new_known_missed_or_from_the_beginning():
    """A number that comes again is the same message, or the publisher counts anew."""
    order = Order()
    assert order.classify(0, b"a") == "next"
    order.take(0, b"a")
    assert order.classify(3, b"d") == "gap"
    order.take(1, b"b")
    order.take(2, b"c")
    order.take(3, b"d")  # it was repeated with those that had been asked for
    assert order.classify(2, b"c") == "known"
    assert order.classify(3, b"d") == "known"
    order.skip_to(7)
    assert order.classify(7, b"h") == "next"
    assert order.classify(0, b"another") == "restart"
    assert order.expected == 0
