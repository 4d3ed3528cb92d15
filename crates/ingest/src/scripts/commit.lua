#!lua flags=allow-oom
-- Settles frames in one atomic step: fence, write results or dead letters, acknowledge, delete, count.
-- Allowed when memory is short, because it frees more than it takes.
--
-- KEYS: ledger; one lease, results and dead key per shard (all leases first); then the streams.
-- ARGV: group, results to keep, dead letters to keep, number of shards; then per shard its token,
--   how many arguments follow, how many frames; then per frame the place of its stream in KEYS, its
--   id, its kind. 'r': number of fields, fields. 'x': reason, tries. 'd': name of the count.
-- Reply: per shard -1 where somebody else owns it, else per frame 1 (settled now), 0 (settled before)
--   or what went wrong.
local group, keep_results, keep_dead = ARGV[1], ARGV[2], ARGV[3]
local n_shards = tonumber(ARGV[4])
local at = 5
local owners = redis.call('MGET', unpack(KEYS, 2, n_shards + 1))
local counts, reply = {}, {}

local function copy_of(stream, id)
    local found = redis.pcall('XRANGE', stream, id, id)
    if found.err or #found == 0 or #found[1][2] > 1000 then
        return {}
    end
    return found[1][2]
end

for shard = 1, n_shards do
    local token, n_args, n_frames = ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
    at = at + 3
    if owners[shard] ~= token then
        reply[shard] = -1
        at = at + n_args
    else
        local results, dead = KEYS[1 + n_shards + shard], KEYS[1 + 2 * n_shards + shard]
        local states = {}
        for frame = 1, n_frames do
            local stream, id, kind = KEYS[tonumber(ARGV[at])], ARGV[at + 1], ARGV[at + 2]
            at = at + 3
            local written, into, name = nil, nil, 'committed'
            if kind == 'r' then
                local last = at + 2 * tonumber(ARGV[at])
                into = results
                written = redis.pcall('XADD', results, 'MAXLEN', '~', keep_results, '*',
                    unpack(ARGV, at + 1, last))
                at = last + 1
            elseif kind == 'x' then
                into, name = dead, 'dead'
                written = redis.pcall('XADD', dead, 'MAXLEN', '~', keep_dead, '*',
                    '_stream', stream, '_id', id, '_reason', ARGV[at], '_tries', ARGV[at + 1],
                    unpack(copy_of(stream, id)))
                at = at + 2
            else
                name = ARGV[at]
                at = at + 1
            end
            if type(written) == 'table' then
                states[frame] = written.err
            else
                -- A frame that is neither pending nor in its stream was settled before.
                local acked = redis.pcall('XACK', stream, group, id)
                local deleted = redis.pcall('XDEL', stream, id)
                if acked == 1 or deleted == 1 then
                    counts[name] = (counts[name] or 0) + 1
                    states[frame] = 1
                else
                    if written then
                        redis.call('XDEL', into, written)
                    end
                    states[frame] = 0
                end
            end
        end
        reply[shard] = states
    end
end
for name, n in pairs(counts) do
    redis.call('HINCRBY', KEYS[1], name, n)
end
return reply
