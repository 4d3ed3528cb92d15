-- Finds frames of a stream that were delivered and are not settled: those that it still has up to where
-- the group has read, and those that are pending. At the stream's beginning it counts as lost what was
-- trimmed away and not settled.
-- KEYS: stream, how many frames of it were settled, ledger.
-- ARGV: group; after which id, as XRANGE takes it; most of either; 1 to look as far as the group has
--   read, 0 to look as far as the last of these: ids that are worked on now, in order.
-- Reply: pending entries, as XPENDING lists them; ids of others; how many were lost.
--
-- Only the gaps between frames that are worked on are looked at, and there one frame at a time, because
-- Redis cannot name frames without copying them.
local stream, group, from, most = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3])
local pending = redis.pcall('XPENDING', stream, group, from, '+', most)
if pending.err then
    return pending
end
local ids, n_lost = {}, 0

local function look(to)
    while #ids < most do
        local found = redis.call('XRANGE', stream, from, to, 'COUNT', 1)
        if #found == 0 then
            return
        end
        ids[#ids + 1] = found[1][1]
        from = '(' .. found[1][1]
    end
end

-- Of a stream that is new here, or was made anew and so has fewer gone than were settled, what is gone is
-- taken as settled. Both count from 1, as what is settled does.
if from == '-' then
    local gone, settled = n_gone(stream) + 1, tonumber(redis.call('GET', KEYS[2]) or nil)
    if settled and settled < gone then
        n_lost = gone - settled
        redis.call('HINCRBY', KEYS[3], 'lost', n_lost)
    end
    if settled ~= gone then
        redis.call('SET', KEYS[2], gone)
    end
end
for at = 5, #ARGV do
    look('(' .. ARGV[at])
    from = '(' .. ARGV[at]
end
if ARGV[4] == '1' then
    for _, about in ipairs(redis.call('XINFO', 'GROUPS', stream)) do
        local known = {}
        for at = 1, #about, 2 do
            known[about[at]] = about[at + 1]
        end
        if known.name == group then
            look(known['last-delivered-id'])
        end
    end
end
return {pending, ids, n_lost}
