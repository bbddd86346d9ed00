-- The law of rules/later.py. KEYS: a sorted set of names by the time each is handed out, a hash of how often each was.
-- ARGV: what, name, span_us, nth, and now_us ("": this server's clock). Replies allowed, name, nth, wait_us.
local what, name, span_us, nth = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local now_us = tonumber(ARGV[5])
if not now_us then
  local time = redis.call('TIME')
  now_us = tonumber(time[1]) * 1000000 + tonumber(time[2])
end
local function whole(number) return string.format('%.0f', number) end
-- The latest time that was told lies among the counts, under a name that none can have.
now_us = math.max(now_us, tonumber(redis.call('HGET', KEYS[2], '') or 0))

local reply
if what == 'put' then
  local count = tonumber(redis.call('HGET', KEYS[2], name) or 0)
  if count == 0 and redis.call('ZCARD', KEYS[1]) >= 10000 then
    reply = {0, name, 0, false}
  else
    local at_us = math.max(tonumber(redis.call('ZSCORE', KEYS[1], name) or 0), now_us + span_us)
    redis.call('ZADD', KEYS[1], whole(at_us), name)
    redis.call('HSET', KEYS[2], name, whole(count + 1))
    reply = {1, name, count + 1, at_us - now_us}
  end
elseif what == 'claim' then
  local first = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
  if not first[1] then
    reply = {0, '', 0, false}
  elseif tonumber(first[2]) > now_us then
    reply = {0, '', 0, tonumber(first[2]) - now_us}
  else
    local count = redis.call('HINCRBY', KEYS[2], first[1], 1)
    redis.call('ZADD', KEYS[1], whole(now_us + span_us), first[1])
    reply = {1, first[1], count, 0}
  end
else
  local fits = nth > 0 and tonumber(redis.call('HGET', KEYS[2], name) or 0) == nth
  if fits then
    redis.call('ZREM', KEYS[1], name)
    redis.call('HDEL', KEYS[2], name)
  end
  reply = {fits and 1 or 0, name, nth, false}
end
if redis.call('ZCARD', KEYS[1]) == 0 then
  redis.call('DEL', KEYS[2])
else
  redis.call('HSET', KEYS[2], '', whole(now_us))
end
return reply
