#!lua flags=allow-oom
-- Settles frames in one atomic step: fence, write results or dead letters, acknowledge, delete, count.
-- Allowed when memory is short, because it frees more than it takes.
--
-- KEYS: ledger; the leases of all shards, then their result streams, then streams and dead letter
--   streams in any order.
-- ARGV: group, results to keep, dead letters to keep, number of shards; then per shard its token, how
--   many arguments follow, how many streams; per stream its place in KEYS and how many frames; per
--   frame its id and kind. 't' (result, tensors): camera, number, time, what they are, their bytes. 'r'
--   (result, anything): camera, number, time, how many fields, fields. 'x' (dead
--   letter): place of the dead letters in KEYS, reason, tries. 'd' (dropped): name of the count.
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
    local token, n_args, n_streams = ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
    at = at + 3
    if owners[shard] ~= token then
        reply[shard] = -1
        at = at + n_args
    else
        local results = KEYS[1 + n_shards + shard]
        local states, n = {}, 0
        for _ = 1, n_streams do
            local stream, n_frames = KEYS[tonumber(ARGV[at])], tonumber(ARGV[at + 1])
            at = at + 2
            for _ = 1, n_frames do
                local id, kind = ARGV[at], ARGV[at + 1]
                at = at + 2
                local entry, name, into = false, 'committed', results
                if kind == 't' then
                    if ARGV[at + 1] == '' then
                        entry = redis.pcall('XADD', results, 'MAXLEN', '~', keep_results, '*',
                            'c', ARGV[at], 'i', id, 't', ARGV[at + 2],
                            'm', ARGV[at + 3], 'd', ARGV[at + 4])
                    else
                        entry = redis.pcall('XADD', results, 'MAXLEN', '~', keep_results, '*',
                            'c', ARGV[at], 'i', id, 'q', ARGV[at + 1], 't', ARGV[at + 2],
                            'm', ARGV[at + 3], 'd', ARGV[at + 4])
                    end
                    at = at + 5
                elseif kind == 'r' then
                    local camera, number, time = ARGV[at], ARGV[at + 1], ARGV[at + 2]
                    local first = at + 4
                    at = first + 2 * tonumber(ARGV[at + 3])
                    if number == '' then
                        entry = redis.pcall('XADD', results, 'MAXLEN', '~', keep_results, '*',
                            'c', camera, 'i', id, 't', time, unpack(ARGV, first, at - 1))
                    else
                        entry = redis.pcall('XADD', results, 'MAXLEN', '~', keep_results, '*',
                            'c', camera, 'i', id, 'q', number, 't', time,
                            unpack(ARGV, first, at - 1))
                    end
                elseif kind == 'x' then
                    into, name = KEYS[tonumber(ARGV[at])], 'dead'
                    entry = redis.pcall('XADD', into, 'MAXLEN', '~', keep_dead, '*',
                        '_stream', stream, '_id', id, '_reason', ARGV[at + 1], '_tries',
                        ARGV[at + 2], unpack(copy_of(stream, id)))
                    at = at + 3
                else
                    name = ARGV[at]
                    at = at + 1
                end
                n = n + 1
                if type(entry) == 'table' then
                    states[n] = entry.err
                else
                    -- A frame that is neither pending nor in its stream was settled before.
                    local acked = redis.pcall('XACK', stream, group, id)
                    local deleted = redis.pcall('XDEL', stream, id)
                    if acked == 1 or deleted == 1 then
                        counts[name] = (counts[name] or 0) + 1
                        states[n] = 1
                    else
                        states[n] = 0
                        if entry then
                            redis.call('XDEL', into, entry)
                        end
                    end
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
