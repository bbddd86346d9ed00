-- The law of rules/call_state.py. KEYS: a hash of the call.
-- ARGV: what, holder, hold_us, wait_us, keep_us, most, and now_us ("": this server's clock).
-- Replies allowed, why, calls, wait_us.
local what, holder = ARGV[1], ARGV[2]
local hold_us, asked_wait_us, keep_us, most = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local now_us = tonumber(ARGV[7])
if not now_us then
  local time = redis.call('TIME')
  now_us = tonumber(time[1]) * 1000000 + tonumber(time[2])
end
local function whole(number) return string.format('%.0f', number) end
local was = redis.call('HMGET', KEYS[1], 'holder', 'until_us', 'calls', 'not_before_us', 'done', 'seen_us',
  'forget_us')
now_us = math.max(now_us, tonumber(was[6] or 0))
if was[7] and tonumber(was[7]) <= now_us then was = {} end
local has, until_us, calls = was[1] or '', tonumber(was[2] or 0), tonumber(was[3] or 0)
local not_before_us, done = tonumber(was[4] or 0), was[5] == '1'

local allowed, why, wait_us = 0, 'lost', 0
if what == 'begin' then
  local mine = has == holder
  if done then
    why = 'done'
  elseif has ~= '' and not mine and until_us > now_us then
    why, wait_us = 'in-flight', until_us - now_us
  elseif calls >= most then
    why = 'spent'
  elseif not mine and not_before_us > now_us then
    why, wait_us = 'early', not_before_us - now_us
  else
    allowed, why = 1, 'begun'
    has, until_us, calls = holder, now_us + hold_us, calls + 1
  end
elseif has == holder or (what == 'done' and until_us <= now_us) then
  allowed, why = 1, 'noted'
  if what == 'done' then
    has, until_us, done = '', 0, true
  else
    not_before_us = math.max(not_before_us, now_us + asked_wait_us)
    if what == 'wait' then
      until_us = math.max(until_us, not_before_us + hold_us)
    else
      has, until_us = '', 0
    end
  end
end

local forget_us = math.max(now_us, not_before_us, until_us) + keep_us
redis.call('HSET', KEYS[1], 'holder', has, 'until_us', whole(until_us), 'calls', whole(calls),
  'not_before_us', whole(not_before_us), 'done', done and '1' or '0', 'seen_us', whole(now_us),
  'forget_us', whole(forget_us))
redis.call('PEXPIRE', KEYS[1], whole(math.ceil((forget_us - now_us) / 1000)))
return {allowed, why, calls, wait_us}
