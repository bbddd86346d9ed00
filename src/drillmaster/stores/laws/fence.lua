-- The law of rules/fence.py. KEYS[1]: the highest token seen. ARGV: token, and now_us, which says nothing here.
-- Tokens are texts without leading zeros, so the longer one is higher: a double holds no number past 2^53.
local token, seen = ARGV[1], redis.call('HGET', KEYS[1], 'token')
if seen and (#token < #seen or (#token == #seen and token < seen)) then return {0, 'stale-token'} end
redis.call('HSET', KEYS[1], 'token', token)
return {1, 'current'}
