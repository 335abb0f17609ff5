"""CEL in rules: what Kubernetes adds to the language for text, addresses and URLs.

Most examples are those of Kubernetes' documentation.
"""

from __future__ import annotations

import time

import pytest

from headgate.kubeschema import cel

TRUE = """
'abc'.charAt(1) == 'b'
'abc'.charAt(3) == ''
'abc 123'.find('[0-9]+') == '123'
'abc 123'.find('xyz') == ''
'123 abc 456'.findAll('[0-9]+') == ['123', '456']
'123 abc 456'.findAll('[0-9]+', 1) == ['123']
'123 abc 456'.findAll('xyz') == []
'hello mellow'.indexOf('ello') == 1
'hello mellow'.indexOf('ello', 2) == 7
'hello mellow'.indexOf('jello') == -1
[1, 2, 2, 3].indexOf(2) == 1
'hello mellow'.lastIndexOf('ello') == 7
[1, 2, 2, 3].lastIndexOf(2) == 2
[1].lastIndexOf(2) == -1
['hello', 'mellow'].join() == 'hellomellow'
['hello', 'mellow'].join(' ') == 'hello mellow'
[].join('/') == ''
'TacoCat'.lowerAscii() == 'tacocat'
'TacoCÆt Xii'.lowerAscii() == 'tacocÆt xii'
'TacoCÆt Xii'.upperAscii() == 'TACOCÆT XII'
'hello hello'.replace('he', 'we') == 'wello wello'
'hello hello'.replace('he', 'we', 1) == 'wello hello'
'hello hello'.replace('he', 'we', 0) == 'hello hello'
'hello hello hello'.split(' ') == ['hello', 'hello', 'hello']
'hello hello hello'.split(' ', 0) == []
'hello hello hello'.split(' ', 2) == ['hello', 'hello hello']
'abc'.split('') == ['a', 'b', 'c']
'abc'.split('', 2) == ['a', 'bc']
'tacocat'.substring(4) == 'cat'
'tacocat'.substring(0, 4) == 'taco'
'  trim '.trim() == 'trim'
isIP('192.168.0.1')
isIP('2001:db8::abcd')
!isIP('192.168.0.256')
!isIP('010.0.0.1')
!isIP('fe80::1%eth0')
!isIP('::ffff:1.2.3.4')
ip('::1') == ip('0:0:0:0:0:0:0:1')
ip('127.0.0.1').family() == 4
ip('::1').family() == 6
ip('0.0.0.0').isUnspecified()
ip('127.0.0.1').isLoopback()
ip('224.0.0.1').isLinkLocalMulticast()
!ip('224.0.1.1').isLinkLocalMulticast()
ip('ff02::1').isLinkLocalMulticast()
ip('169.254.169.254').isLinkLocalUnicast()
ip('192.168.0.1').isGlobalUnicast()
!ip('255.255.255.255').isGlobalUnicast()
!ip('127.0.0.1').isGlobalUnicast()
isCIDR('192.168.0.0/16')
!isCIDR('192.168.0.0/33')
!isCIDR('192.168.0.0')
!isCIDR('192.168.0.0/255.255.0.0')
cidr('192.168.0.0/24').containsIP(ip('192.168.0.1'))
cidr('192.168.0.0/24').containsIP('192.168.0.255')
!cidr('192.168.0.0/24').containsIP('192.168.1.1')
cidr('192.168.0.0/16').containsCIDR('192.168.10.0/24')
cidr('192.168.0.0/16').containsCIDR(cidr('192.168.0.0/16'))
!cidr('192.168.0.0/24').containsCIDR('192.168.0.0/16')
!cidr('192.168.0.0/24').containsCIDR('::/0')
cidr('192.168.0.1/24').ip() == ip('192.168.0.1')
cidr('192.168.0.1/24').masked() == cidr('192.168.0.0/24')
cidr('::1/128').prefixLength() == 128
isURL('https://user:pass@example.com:80/path?query=val#fragment')
isURL('/absolute-path')
!isURL('https://a:b:c/')
!isURL('../relative-path')
!isURL('')
url('https://example.com/').getScheme() == 'https'
url('/absolute').getScheme() == ''
url('https://example.com:80/').getHost() == 'example.com:80'
url('https://user:pass@[::1]:80/').getHost() == '[::1]:80'
url('https://[::1]:80/').getHostname() == '::1'
url('https://example.com:80/').getHostname() == 'example.com'
url('https://example.com/').getPort() == ''
url('https://example.com:80/').getPort() == '80'
url('https://example.com/path with spaces/').getEscapedPath() == '/path%20with%20spaces/'
url('https://example.com/path?k1=a&k2=b&k2=c').getQuery() == {'k1': ['a'], 'k2': ['b', 'c']}
url('https://example.com/path?').getQuery() == {}
size('é') == 1
'日本😀'.size() == 3
b'é'.size() == 2
['é', 'a'].all(text, text.size() == 1)
'size(x)'.size() == 7
{'a': 1}.?a.orValue(2) == 1
{'a': 1}.?b.orValue(2) == 2
{'a': {'b': 1}}.?a.?b.value() == 1
{'a': {'b': 1}}.?a.b.value() == 1
!{'a': {}}.?a.?b.?c.hasValue()
[5, 6][?1].value() == 6
![5, 6][?2].hasValue()
{'a b': [1]}[?'a b'][?0].value() == 1
[{'a': 1}, {}].map(item, item.?a.orValue(0)) == [1, 0]
{'x.?y': 1}['x.?y'] == 1
(true ? {'a': 1} : {}).?a.hasValue()
optional.of({'a': 1}).?a.value() == 1
sets.contains([1, 2, 3], [3, 1])
sets.contains([], [])
!sets.contains([1], [1, 4])
!sets.contains([1], [true])
sets.contains([[1], [2, 3]], [[2, 3.0]])
sets.equivalent([1, 1], [1])
sets.equivalent([1, 2, 3], [3, 2, 1])
!sets.equivalent(['a'], ['b'])
sets.intersects([1, 2], [2])
!sets.intersects([1], [])
'%s has %d of %.2f%%'.format(['x', 3, 12.5]) == 'x has 3 of 12.50%'
'%s %s %s'.format([true, null, 1.0]) == 'true null 1'
'%s'.format([['a', 1, {'k': 2, 'b': 'v'}]]) == '["a", 1, {"b":"v", "k":2}]'
duration('1.5h') == duration('90m') && duration('+3µs') < duration('.5ms') && duration('0') == duration('0s')
duration('30m0.000000001s') > duration('30m') && duration('-1ns') < duration('0s')
'a+b'.matches('\\\\Qa+\\\\E') && !'ab'.matches('^b')
'%b %o %x %X'.format([5, 8, 255, 255]) == '101 10 ff FF'
'%x'.format(['hi']) == '6869'
"""

ERRORS = """
duration('9999999h')
duration('1d')
''.matches('(')
''.matches('a{1001}')
'abc'.charAt(4)
'abc'.substring(2, 1)
'abc'.find('[')
ip('nonsense')
cidr('10.0.0.0')
url('../relative')
{'a': {}}.?a.b.value()
{}.?a.value()
1.?a
'%d'.format(['x'])
'%s %s'.format(['x'])
'%s'.format([1, 2])
'%q'.format([1])
sets.contains(1, [1])
"""

REFUSED = """
{?'a': optional.of(1)}
[?optional.of(1)]
[1].all(i, v, v > 0)
format.dns1123Label().validate('a')
{'a': 1}.?a.optMap(v, v + 1)
cel.bind(x, 1, x)
"""


@pytest.mark.parametrize("source", TRUE.strip().splitlines())
def test_a_function_does_what_kubernetes_says(source: str) -> None:
    """Each example is true."""
    assert cel.compiled(source).evaluate({}) is True


@pytest.mark.parametrize("source", ERRORS.strip().splitlines())
def test_what_cannot_be_computed_is_an_error_of_the_rule(source: str) -> None:
    """And of nothing else."""
    with pytest.raises(cel.CelError):
        cel.compiled(source).evaluate({})


@pytest.mark.parametrize("source", REFUSED.strip().splitlines())
def test_what_there_is_not_is_refused_before_it_is_run(source: str) -> None:
    """A definition with such a rule is not accepted, so no object passes unjudged."""
    with pytest.raises(cel.CelError):
        cel.compiled(source)


def test_sizes_count_characters_of_objects_too() -> None:
    """Whatever alphabet the text of an object is in."""
    rule = cel.compiled("self.name.size() <= 3 && self.items.size() == 1")
    assert rule.evaluate({"name": "日本語", "items": ["é"]}) is True
    assert rule.evaluate({"name": "abcd", "items": ["é"]}) is False
    changed = cel.compiled("self.size() == oldSelf.size()")
    assert changed.evaluate("a", "é") is True


def test_large_sets_are_compared_at_once() -> None:
    """Each item is looked at once, and not once for each of the others."""
    began = time.process_time()
    assert cel.compiled("sets.equivalent(self, self)").evaluate(list(range(50_000))) is True
    assert time.process_time() - began < 20  # comparing each with each takes minutes


def test_text_does_not_grow_without_end() -> None:
    """Each call could multiply what the one before made."""
    source = "self" + ".replace('a', 'aaaaaaaaaaaaaaaaaaaa')" * 20
    with pytest.raises(cel.CelError, match="longer than an expression may make"):
        cel.compiled(source).evaluate("a" * 10)
    lists = "[self, self, self, self, self, self, self, self].join(self)"
    with pytest.raises(cel.CelError, match="longer than an expression may make"):
        cel.compiled(lists).evaluate("a" * 500_000)


def test_loops_of_calls_cost_more_than_loops_of_steps() -> None:
    """A rule that would run for seconds is over its budget before it begins."""
    plain = cel.compiled("self.all(a, self.all(b, a == b))")
    calling = cel.compiled("self.all(a, self.all(b, a.lowerAscii() == b))")
    items = ["a" * 200] * 100
    assert plain.steps(items) < calling.steps(items)
    assert calling.steps(["a" * 20] * 100) < calling.steps(items)


def test_a_hostile_pattern_takes_no_time() -> None:
    """RE2 does not go back."""
    began = time.process_time()
    cel.compiled("self.find('(a*)*b') == ''").evaluate("a" * 100_000)
    assert time.process_time() - began < 20  # going back takes longer than anybody lives
