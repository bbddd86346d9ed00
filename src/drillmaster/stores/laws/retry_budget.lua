-- The law of rules/retry_budget.py. KEYS: a hash of what is missing and the last marks.
-- ARGV: take_milli, give_milli, full_milli, mark, and now_us, which moves nothing. Replies allowed, left_milli.
local take, give, full, mark = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local was = redis.call('HMGET', KEYS[1], 'milli', 'marks')
local milli, marks = tonumber(was[1] or 0), was[2] or ''
if give > 0 and not string.find(' ' .. marks .. ' ', ' ' .. mark .. ' ', 1, true) then
  milli = math.max(0, milli - give)
  local kept = {}
  for one in string.gmatch(marks, '%S+') do kept[#kept + 1] = one end
  kept[#kept + 1] = mark
  marks = table.concat(kept, ' ', math.max(1, #kept - 31))
end
local allowed = 0
if milli + take <= full then
  milli = milli + take
  allowed = 1
end
redis.call('HSET', KEYS[1], 'milli', string.format('%.0f', milli), 'marks', marks)
if milli == 0 then
  redis.call('PEXPIRE', KEYS[1], 60000)
else
  redis.call('PERSIST', KEYS[1])
end
return {allowed, math.max(0, full - milli)}
