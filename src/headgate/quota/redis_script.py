"""The shared account inside Redis: atomic scripts that do what `flow.limits.LeaseAccount` does.

An account is one hash, so that it is lost as a whole or not at all, and lives on one node of a cluster. Its
fields `tokens` and `last_update` are those of Kthena's router, which may count in the same account. Further
fields are `epoch`, which tells a new account from the one before, `lease:<member>` for each member, with
"turn granted used heard_at", and `time`.

The clock of Redis may jump, by a failover or by its correction. So an account has a time of its own, which
advances by what passed between two readings of that clock, and never goes back; and members, whose clocks are
monotonic, send the bounds that it must be within by now. `time` is "time clock": the account's time, and the
clock of Redis then. If `last_update` is another clock, Kthena's router has written since.
"""

from __future__ import annotations

import hashlib
import math

from headgate.flow.limits import Claim, Grant
from headgate.flow.limits.lease_account import FORGET_S, GRACE_S, LEASE_S, SPILL_S

PREFIX = "kthena:ratelimit"
"""Prefix of models' keys, which Kthena's router has too: `kthena:ratelimit:{model}:{input|output}`."""
OWN_PREFIX = "headgate:ratelimit"
"""Prefix of keys without a model: of tenants, and of routes for adapters only."""
MIN_EXPIRY_S, LONGEST_EXPIRY_S = 600, 90 * 86_400
MAX_NUMBER = 1 << 53
"""Largest number accepted from a server: up to it, floats are exact."""
SLACK_S = 0.5
"""Added to the upper bound for the travel of a claim to Redis."""

OWN_TIME = """
-- Seconds that are taken to have passed since it was `time`, by Redis' clock and by what the claimant knows.
local function passed_since(time, passed, time_from, time_until)
  if time_from and time_until then
    passed = math.max(math.min(passed, time_until - time), time_from - time)
  end
  return math.max(passed, 0)
end
"""

CLAIM = (
    OWN_TIME
    + """
local key = KEYS[1]
local limit, unit = tonumber(ARGV[1]), tonumber(ARGV[2])
local name, turn, used = 'lease:' .. ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local told, known_granted = tonumber(ARGV[6]), tonumber(ARGV[7])
local need, least, want = tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10])
local known_epoch, known_level = ARGV[11], tonumber(ARGV[12])
local time_from, time_until = tonumber(ARGV[13]), tonumber(ARGV[14])
local lease_s, forget_s, expiry_s = tonumber(ARGV[15]), tonumber(ARGV[16]), tonumber(ARGV[17])
local covered, spill_s = tonumber(ARGV[18]), tonumber(ARGV[19])
local clock = redis.call('TIME')
local read = tonumber(clock[1]) + tonumber(clock[2]) / 1000000

local tokens, updated, epoch, time, read_then = limit, read, nil, nil, nil
local spilled, spilled_at = 0, nil
local members, changed = {}, {}
local fields = redis.call('HGETALL', key)
for i = 1, #fields, 2 do
  local field, value = fields[i], fields[i + 1]
  if field == 'tokens' then tokens = tonumber(value) or limit
  elseif field == 'last_update' then updated = tonumber(value) or read
  elseif field == 'time' then
    local at, by = string.match(value, '^(%S+) (%S+)$')
    time, read_then = tonumber(at), tonumber(by)
  elseif field == 'epoch' then epoch = value
  elseif field == 'spilled' then
    local amount, at = string.match(value, '^(%S+) (%S+)$')
    spilled, spilled_at = tonumber(amount) or 0, tonumber(at)
  elseif string.sub(field, 1, 6) == 'lease:' then
    local t, g, u, h = string.match(value, '^(%S+) (%S+) (%S+) (%S+)$')
    if h then
      members[field] = {
        turn = tonumber(t), granted = tonumber(g), used = tonumber(u), heard = tonumber(h)
      }
    end
  end
end
epoch = epoch or (clock[1] .. '.' .. clock[2])

if not (time and read_then) then time, read_then = updated, updated end
local is_known = known_epoch == epoch
local passed = passed_since(time, read - read_then, is_known and time_from, is_known and time_until)
local now = time + passed
if updated ~= read_then then passed = math.min(passed, math.max(read - updated, 0)) end
local came = passed * limit / unit
tokens = tokens + came
-- Beyond a lower limit there may be more, which came in for nobody.
local over = math.min(tokens - limit, came)
if not spilled_at or now - spilled_at > spill_s then spilled, spilled_at = 0, now end
if over > spilled then spilled, spilled_at = over, now end
tokens = math.min(limit, tokens)
local is_other = known_epoch ~= '' and known_epoch ~= epoch
if is_other and known_level then tokens = math.min(tokens, math.max(known_level, 0)) end

for field, member in pairs(members) do
  local silent = now - member.heard
  if silent > lease_s and member.granted > member.used then
    tokens = math.min(limit, tokens + member.granted - member.used)
    member.granted = member.used
    changed[field] = true
  end
  if silent > forget_s then
    redis.call('HDEL', key, field)
    members[field] = nil
    changed[field] = nil
  end
end

local me = members[name] or {turn = turn - 1, granted = known_granted, used = told, heard = now}
members[name] = me
local is_new = turn > me.turn
if is_new then me.heard = now end
local present = 0
for _, member in pairs(members) do
  if now - member.heard <= lease_s then present = present + 1 end
end
if is_new then
  me.turn, me.used = turn, used
  if me.granted < used then
    local beyond = used - me.granted
    covered = math.min(covered, beyond)
    if not is_other then
      covered = math.min(covered, math.floor(spilled))
      spilled = spilled - covered
    end
    tokens = tokens - (beyond - covered)
    me.granted = used
  end
  local held = me.granted - used
  if want < held then
    tokens = math.min(limit, tokens + held - want)
    me.granted = used + want
  else
    local free = math.max(math.floor(tokens), 0)
    local needed = math.max(need - held, 0)
    if needed == 0 or held + free >= least then
      local given = math.min(want - held, math.max(math.min(needed, free), math.floor(free / 2)))
      tokens = tokens - given
      me.granted = me.granted + given
    end
  end
  changed[name] = true
end

local write = {'epoch', epoch, 'tokens', string.format('%.17g', tokens)}
local stamp = string.format('%.6f', read)
write[#write + 1] = 'last_update'
write[#write + 1] = stamp
write[#write + 1] = 'spilled'
write[#write + 1] = string.format('%.17g %.6f', spilled, spilled_at)
write[#write + 1] = 'time'
write[#write + 1] = string.format('%.6f', now) .. ' ' .. stamp
for field, _ in pairs(changed) do
  local m = members[field]
  write[#write + 1] = field
  write[#write + 1] = string.format('%.0f %.0f %.0f %.6f', m.turn, m.granted, m.used, m.heard)
end
redis.call('HSET', key, unpack(write))
redis.call('EXPIRE', key, expiry_s)
return {epoch, string.format('%.0f', me.used), string.format('%.0f', me.granted),
        string.format('%.17g', tokens), present, string.format('%.6f', now)}
"""
)


def bucket(model: str | None, name: str) -> str:
    """The key of the accounts of a route, or of a tenant's limit, without the direction. A model may be named
    like any of them, but gets another key."""
    return f"{PREFIX}:{model}" if model else f"{OWN_PREFIX}:{name}"


def digest(script: str) -> str:
    """The name by which Redis knows the script."""
    return hashlib.sha1(script.encode()).hexdigest()  # noqa: S324 - a name, not a secret


def arguments(claim: Claim) -> list[str | int]:
    """Arguments of CLAIM, after the key."""
    return [
        claim.limit,
        claim.unit_s,
        claim.member,
        claim.turn,
        claim.used,
        claim.told,
        claim.granted,
        claim.need,
        claim.least,
        claim.want,
        claim.epoch,
        "" if math.isinf(claim.level) else repr(claim.level),
        *bounds(claim.time_from, claim.time_until),
        repr(LEASE_S + GRACE_S),
        repr(FORGET_S),
        expiry_s(claim.unit_s),
        claim.covered,
        repr(SPILL_S),
    ]


def bounds(time_from: float | None, time_until: float | None) -> tuple[str, str]:
    """The bounds of the account's time now; empty if unknown."""
    if time_from is None or time_until is None:
        return "", ""
    return f"{time_from:.6f}", f"{time_until + SLACK_S:.6f}"


def expiry_s(unit_s: int) -> int:
    """How long Redis keeps an account that is not used."""
    return min(max(3 * unit_s, MIN_EXPIRY_S), LONGEST_EXPIRY_S)


def grant(answer: list[bytes | int]) -> Grant:
    """The result of CLAIM. Raises ValueError or TypeError if it is invalid."""
    epoch, used, granted, level, members, time = answer
    assert isinstance(epoch, bytes)
    return Grant(
        epoch=epoch.decode(),
        used=count(used),
        granted=count(granted),
        level=amount(level),
        members=count(members),
        time=amount(time),
    )


def count(told: bytes | int) -> int:
    """A number of tokens or gateways. Raises ValueError or TypeError."""
    number = int(told)
    if not 0 <= number <= MAX_NUMBER:
        raise ValueError(f"{told!r:.80} counts nothing")
    return number


def amount(told: bytes | int) -> float:
    """A finite number of bounded size, as NaN and infinity would break sums and comparisons. Raises
    ValueError or TypeError."""
    number = float(told)
    if not abs(number) <= MAX_NUMBER:
        raise ValueError(f"{told!r:.80} is no amount")
    return number
