-- The law of rules/quota.py. KEYS: a hash of numbers, a list of "when:cost", oldest first.
-- ARGV: cost, window_us, cap, burst, and now_us ("": this server's clock). Replies allowed, wait_us, left.
local cost, window_us, cap, burst = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local now_us = tonumber(ARGV[5])
if not now_us then
  local time = redis.call('TIME')
  now_us = tonumber(time[1]) * 1000000 + tonumber(time[2])
end
local function whole(number) return string.format('%.0f', number) end
local function read(entry)
  local at, of = string.match(entry, '^(%d+):(%d+)$')
  return tonumber(at), tonumber(of)
end

local was = redis.call('HMGET', KEYS[1], 'tat_us', 'tat_part', 'tat_of', 'seen_us', 'spent')
local tat_us, tat_part, tat_of = tonumber(was[1] or 0), tonumber(was[2] or 0), tonumber(was[3] or 1)
local spent = tonumber(was[5] or 0)
now_us = math.max(now_us, tonumber(was[4] or 0))
while true do
  local oldest = redis.call('LINDEX', KEYS[2], 0)
  if not oldest then break end
  local at, of = read(oldest)
  if at > now_us - window_us then break end
  redis.call('LPOP', KEYS[2])
  spent = spent - of
end

local function spaced(much, part)
  local sum = part + much * (window_us % cap)
  return much * math.floor(window_us / cap) + math.floor(sum / cap), sum % cap
end
if tat_of ~= cap then
  if tat_part > 0 then tat_us = tat_us + 1 end
  tat_part = 0
end
if tat_us < now_us then tat_us, tat_part = now_us, 0 end
local burst_us, burst_part = spaced(burst, 0)
local due_us, due_part = spaced(math.min(cost, burst), tat_part)
due_us = due_us + tat_us
local early_us = due_us - burst_us - now_us
if due_part > burst_part then early_us = early_us + 1 end
local left = math.max(0, cap - spent)
local over = spent + cost - cap

local allowed, wait_us = 0, false
if cost > burst then
  wait_us = false
elseif over <= 0 and early_us <= 0 then
  local at = now_us
  if cap > 10000 then
    local piece_us = math.max(1, math.floor(window_us / 10000))
    at = math.ceil(now_us / piece_us) * piece_us
  end
  local newest = redis.call('LINDEX', KEYS[2], -1)
  local newest_at, newest_of = nil, nil
  if newest then newest_at, newest_of = read(newest) end
  if newest_at and newest_at >= at then
    redis.call('LSET', KEYS[2], -1, whole(newest_at) .. ':' .. whole(newest_of + cost))
  else
    redis.call('RPUSH', KEYS[2], whole(at) .. ':' .. whole(cost))
  end
  tat_us, tat_part, spent, left = due_us, due_part, spent + cost, left - cost
  allowed, wait_us = 1, 0
else
  local frees_us, from = 0, 0
  while over > 0 do
    local some = redis.call('LRANGE', KEYS[2], from, from + 99)
    if #some == 0 then break end
    for _, entry in ipairs(some) do
      if over <= 0 then break end
      local at, of = read(entry)
      over, frees_us = over - of, at + window_us - now_us
    end
    from = from + 100
  end
  wait_us = math.max(frees_us, early_us)
end

redis.call('HSET', KEYS[1], 'tat_us', whole(tat_us), 'tat_part', whole(tat_part), 'tat_of', whole(cap),
  'seen_us', whole(now_us), 'spent', whole(spent))
local newest = redis.call('LINDEX', KEYS[2], -1)
local last_us = 0
if newest then last_us = read(newest) + window_us end
local keep_ms = math.ceil((math.max(last_us, tat_us, now_us) - now_us + window_us) / 1000)
redis.call('PEXPIRE', KEYS[1], whole(keep_ms))
redis.call('PEXPIRE', KEYS[2], whole(keep_ms))
return {allowed, wait_us, left}
