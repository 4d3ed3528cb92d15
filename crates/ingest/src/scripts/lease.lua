#!lua flags=allow-oom
-- Takes, renews and gives back shards.
--
-- KEYS: per shard its lease and its epoch; last the fence, where all shards share one.
-- ARGV: node, incarnation, milliseconds a lease lasts; then per shard 'a' (take if free), 's' (take if
--   free or last held by this node), 'd' and a token (give back) or 'r' and a token (renew).
-- Reply: per shard the token that holds now for this node, or ''.
local node, incarnation, lasts = ARGV[1], ARGV[2], ARGV[3]
local fence = #KEYS % 2 == 1 and KEYS[#KEYS]
local reply = {}
for shard = 1, math.floor(#KEYS / 2) do
    local lease, epoch = KEYS[2 * shard - 1], KEYS[2 * shard]
    local action, token = string.sub(ARGV[3 + shard], 1, 1), string.sub(ARGV[3 + shard], 2)
    local owner = redis.call('GET', lease)
    reply[shard] = ''
    if action == 'r' then
        if owner == token then
            redis.call('PEXPIRE', lease, lasts)
            reply[shard] = token
        end
    elseif action == 'd' then
        if owner == token then
            redis.call('DEL', lease)
        end
    elseif not owner or (action == 's' and string.sub(owner, 1, #node + 1) == node .. ':') then
        token = node .. ':' .. incarnation .. ':' .. redis.call('INCR', epoch)
        redis.call('SET', lease, token, 'PX', lasts)
        if fence then
            -- Never what it was before: a shard has each epoch once.
            redis.call('SET', fence, lease .. ' ' .. token)
        end
        reply[shard] = token
    end
end
return reply
