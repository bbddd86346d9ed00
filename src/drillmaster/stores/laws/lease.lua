-- The law of rules/lease.py. KEYS: a hash that is the latest grant, a stream that is the log.
-- ARGV: action, holder, by, token, ttl_us, permitted, and now_us ("": this server's clock). Replies allowed, reason, token, left_us.
-- Tokens are compared as the texts they are: a double holds no number past 2^53.
local action, holder, by, token = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local ttl_us, now_us = tonumber(ARGV[5]), tonumber(ARGV[7])
if not now_us then
  local time = redis.call('TIME')
  now_us = tonumber(time[1]) * 1000000 + tonumber(time[2])
end
local function whole(number) return string.format('%.0f', number) end
local function one_more(text)
  local head, nines = string.match(text, '^(%d-)(9*)$')
  local digit = head == '' and '1' or string.char(string.byte(head, -1) + 1)
  return string.sub(head, 1, -2) .. digit .. string.rep('0', #nines)
end

local was = redis.call('HMGET', KEYS[1], 'token', 'holder', 'until_us', 'seen_us')
local last, held_by_us = was[1], was[2] == holder
local until_us = tonumber(was[3] or 0)
now_us = math.max(now_us, tonumber(was[4] or 0))
local live = now_us < until_us

local reason, told, left_us = nil, false, false
local grants, keeps = false, false
if ARGV[6] ~= '1' then
  reason = 'steal-not-permitted'
elseif not last then
  if action == 'acquire' then reason, grants = 'granted', true else reason = 'not-held' end
elseif action == 'acquire' or action == 'steal' then
  if held_by_us and live then
    reason, keeps = (action == 'acquire' and 'granted' or 'stolen'), true
  elseif held_by_us then
    reason = 'holder-spent'
  elseif action == 'acquire' and live then
    reason, left_us = 'held', until_us - now_us
  elseif action == 'acquire' then
    reason, grants = 'granted', true
  elseif token == last then
    reason, grants = 'stolen', true
  else
    reason = 'stale-token'
  end
elseif token ~= last then
  reason = 'stale-token'
elseif not held_by_us then
  reason = 'other-holder'
elseif action == 'release' and (live or until_us == 0) then
  reason, until_us = 'released', 0
elseif not live then
  reason = until_us == 0 and 'not-held' or 'expired'
else
  reason, keeps, until_us = 'renewed', true, now_us + ttl_us
end

if grants then
  until_us = now_us + ttl_us
  told = whole(now_us)
  local least = last and one_more(last) or '1'
  if #least > #told or (#least == #told and least > told) then told = least end
  redis.call('HSET', KEYS[1], 'token', told, 'holder', holder, 'by', by, 'since_us', whole(now_us),
    'until_us', whole(until_us), 'seen_us', whole(now_us))
elseif last then
  redis.call('HSET', KEYS[1], 'until_us', whole(until_us), 'seen_us', whole(now_us))
  if keeps then told = last end
end
if told then left_us = until_us - now_us end
local allowed = (told or reason == 'released') and 1 or 0
redis.call('XADD', KEYS[2], 'MAXLEN', '~', '10000', '*', 'at_us', whole(now_us), 'action', action, 'holder', holder, 'by', by,
  'asked', token, 'allowed', allowed, 'reason', reason, 'token', told or '')
return {allowed, reason, told, left_us}
