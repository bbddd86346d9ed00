-- The law of rules/quota.py. KEYS: for each limit eight numbers (tat_us, tat_part, tat_of, seen_us, spent, until_us, and when
-- the oldest and the newest one was granted), and a list of when and cost, oldest first; packed, since texts take longer. ARGV: limits as "name,cost,window_us,cap,burst;...", and now_us ("": this server's clock).
-- Replies allowed, wait_us, left, limit.
local read, pack = struct.unpack, struct.pack

local now_us = tonumber(ARGV[2])
local given = now_us ~= nil
if not given then
  local time = redis.call('TIME')
  now_us = tonumber(time[1]) * 1000000 + tonumber(time[2])
end
local limits = {}
for cost, window_us, cap, burst in string.gmatch(ARGV[1], '[%l%d-]+,(%d+),(%d+),(%d+),(%d+)') do
  local one = {
    cost = tonumber(cost), window_us = tonumber(window_us), cap = tonumber(cap), burst = tonumber(burst),
    state = KEYS[2 * #limits + 1], list = KEYS[2 * #limits + 2],
  }
  local was = redis.call('GET', one.state)
  if was then
    if #was ~= 64 then return redis.error_reply('what is kept there is none of this law') end
    local seen_us
    one.tat_us, one.tat_part, one.tat_of, seen_us, one.spent, one.until_us, one.oldest_us, one.newest_us =
      read('>dddddddd', was)
    now_us = math.max(now_us, seen_us)
  end
  limits[#limits + 1] = one
end
if #limits * 2 ~= #KEYS or #limits == 0 then
  return redis.error_reply('a question that is none')
end

local function spaced(one, much, part)
  local sum = part + much * (one.window_us % one.cap)
  return much * math.floor(one.window_us / one.cap) + math.floor(sum / one.cap), sum % one.cap
end

-- What a limit says: how long to wait, 0 where it grants, false for never. Nothing is written yet.
local function try(one)
  if not one.until_us or one.until_us <= now_us then
    one.forgotten, one.tat_us, one.tat_part, one.tat_of, one.spent = one.until_us, 0, 0, 1, 0
  end
  one.dead, one.left = 0, math.max(0, one.cap - one.spent)
  if one.spent > 0 and one.oldest_us <= now_us - one.window_us then
    one.oldest_us = nil
    while true do
      local oldest = redis.call('LINDEX', one.list, one.dead)
      if not oldest then break end
      local at, of = read('>dd', oldest)
      if at > now_us - one.window_us then
        one.oldest_us = at
        break
      end
      one.dead, one.spent = one.dead + 1, one.spent - of
    end
    one.left = math.max(0, one.cap - one.spent)
  end
  if one.cost > one.burst then return false end
  if one.tat_of ~= one.cap then
    if one.tat_part > 0 then one.tat_us = one.tat_us + 1 end
    one.tat_part = 0
  end
  if one.tat_us < now_us then one.tat_us, one.tat_part = now_us, 0 end
  local burst_us, burst_part = spaced(one, one.burst, 0)
  local due_us, due_part = spaced(one, one.cost, one.tat_part)
  one.due_us, one.due_part = due_us + one.tat_us, due_part
  local early_us = one.due_us - burst_us - now_us
  if due_part > burst_part then early_us = early_us + 1 end
  local over = one.spent + one.cost - one.cap
  if over <= 0 and early_us <= 0 then return 0 end
  local frees_us, from, many = 0, one.dead, 1
  while over > 0 do
    local some = redis.call('LRANGE', one.list, from, from + many - 1)
    if #some == 0 then break end
    for _, entry in ipairs(some) do
      if over <= 0 then break end
      local at, of = read('>dd', entry)
      over, frees_us = over - of, at + one.window_us - now_us
    end
    from, many = from + many, math.min(100, 4 * many)
  end
  return math.max(frees_us, early_us)
end

local worst, wait_us = 1, nil
for n, one in ipairs(limits) do
  local its_us = try(one)
  if wait_us == nil or (wait_us and (not its_us or its_us > wait_us)) then worst, wait_us = n, its_us end
end
if wait_us ~= 0 then return {0, wait_us, limits[worst].left, worst - 1} end

for _, one in ipairs(limits) do
  local at = now_us
  if one.cap > 1000 then
    local piece_us = math.max(1, math.floor(one.window_us / 1000))
    at = math.ceil(now_us / piece_us) * piece_us
  end
  if one.forgotten then redis.call('DEL', one.list) end
  if one.dead > 0 then redis.call('LPOP', one.list, one.dead) end
  if one.spent > 0 and one.newest_us >= at then
    local newest_of
    at, newest_of = read('>dd', redis.call('LINDEX', one.list, -1))
    redis.call('LSET', one.list, -1, pack('>dd', at, newest_of + one.cost))
  else
    redis.call('RPUSH', one.list, pack('>dd', at, one.cost))
  end
  local oldest_us = one.spent > 0 and one.oldest_us or at
  -- A time that was given is not this server's, and nothing may be forgotten by this one.
  local until_us = math.max(at + one.window_us, one.due_us) + one.window_us
  local keep_ms = string.format('%.0f', given and 3600000 or math.ceil((until_us - now_us) / 1000))
  redis.call('SET', one.state, pack('>dddddddd', one.due_us, one.due_part, one.cap, now_us, one.spent + one.cost, until_us,
    oldest_us, at), 'PX', keep_ms)
  redis.call('PEXPIRE', one.list, keep_ms)
end
return {1, 0, limits[1].left - limits[1].cost, 0}
