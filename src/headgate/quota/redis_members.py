"""The book of gateways inside Redis: an atomic script that does what `flow.limits.ShareBook` does.

It is one hash. Each gateway has a field `gateway:<name>` with "turn promised weight heard_at"; `since` is
when the book began, and `time` is as in an account.
"""

from __future__ import annotations

from headgate.flow.limits import Presence, Standing
from headgate.flow.limits.shares import FLOOR, GRACE_S, KEEP_S, PRESENT_S, RESERVE, WHOLE
from headgate.quota.redis_script import OWN_PREFIX, OWN_TIME, amount, bounds, count

KEY = f"{OWN_PREFIX}:members"
EXPIRY_S = 100

NOTE = (
    OWN_TIME
    + """
local key = KEYS[1]
local name, turn, held = 'gateway:' .. ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local weight, is_leaving = tonumber(ARGV[4]), ARGV[5] == '1'
local time_from, time_until = tonumber(ARGV[6]), tonumber(ARGV[7])
local whole, floor, reserve = tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10])
local present_s, keep_s, expiry_s = tonumber(ARGV[11]), tonumber(ARGV[12]), tonumber(ARGV[13])
local clock = redis.call('TIME')
local read = tonumber(clock[1]) + tonumber(clock[2]) / 1000000

local members, time, read_then, since = {}, nil, nil, nil
local fields = redis.call('HGETALL', key)
for i = 1, #fields, 2 do
  local field, value = fields[i], fields[i + 1]
  if field == 'since' then since = tonumber(value)
  elseif field == 'time' then
    local at, by = string.match(value, '^(%S+) (%S+)$')
    time, read_then = tonumber(at), tonumber(by)
  else
    local t, p, w, h = string.match(value, '^(%S+) (%S+) (%S+) (%S+)$')
    if h then
      members[field] = {turn = tonumber(t), promised = tonumber(p), weight = tonumber(w), heard = tonumber(h)}
    end
  end
end
if not (time and read_then) then time, read_then = read, read end
local now = time + passed_since(time, read - read_then, since and time_from, since and time_until)
since = since or now
for field, member in pairs(members) do
  if now - member.heard > keep_s then
    redis.call('HDEL', key, field)
    members[field] = nil
  end
end

local part = held
if is_leaving then
  part = 0
  redis.call('HDEL', key, name)
  members[name] = nil
else
  local me = members[name] or {turn = turn - 1, promised = 0}
  members[name] = me
  if turn > me.turn then
    me.turn, me.weight, me.heard = turn, weight, now
    if now - since > keep_s then
      local room, silent, weights, present = whole, 0, 0, 0
      for field, member in pairs(members) do
        if field ~= name then room = room - member.promised end
        if now - member.heard <= present_s then
          present, weights = present + 1, weights + member.weight
        else
          silent = silent + member.promised
        end
      end
      local by_use = weights > 0 and weight / weights or 1 / present
      local fair = math.floor((whole - reserve - silent) * (floor / present + (1 - floor) * by_use))
      part = math.max(math.min(fair, math.max(room - reserve, math.floor(room / 2))), 0)
    end
    me.promised = math.max(held, part)
    redis.call('HSET', key, name, string.format('%.0f %.0f %.9g %.6f', turn, me.promised, weight, now))
  end
end
local present = 0
for _, member in pairs(members) do
  if now - member.heard <= present_s then present = present + 1 end
end
local at = string.format('%.6f', now)
redis.call('HSET', key, 'since', string.format('%.6f', since), 'time', at .. string.format(' %.6f', read))
redis.call('EXPIRE', key, expiry_s)
return {present, string.format('%.0f', part), at}
"""
)


def arguments(name: str, presence: Presence) -> list[str | int]:
    """Arguments of NOTE, after the key."""
    return [
        name,
        presence.turn,
        presence.held,
        f"{presence.weight:.9g}",
        int(presence.is_leaving),
        *bounds(presence.time_from, presence.time_until),
        WHOLE,
        repr(FLOOR),
        RESERVE,
        repr(PRESENT_S),
        repr(KEEP_S + GRACE_S),
        EXPIRY_S,
    ]


def standing(answer: list[bytes | int]) -> Standing:
    """The result of NOTE. Raises ValueError or TypeError if it is invalid."""
    members, part, time = answer
    return Standing(members=count(members), part=count(part), time=amount(time))
