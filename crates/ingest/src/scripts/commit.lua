#!lua flags=allow-oom
-- Settles frames in one atomic step: fence, write results or dead letters, acknowledge, delete, count.
-- Allowed when memory is short, because it frees more than it takes.
--
-- A part is frames of one stream. KEYS: ledger; the leases of all parts, their result streams, their
--   streams; then dead letter streams.
-- ARGV: group, results to keep, dead letters to keep, number of parts, what the outputs are; then per
--   part its token, how many frames, how many arguments they have, whether the results are trimmed
--   ('1'), and what the frames are. 'p': results, each its id, camera, number, time and bytes. 'm': all
--   sorts, each its id and kind. 'r' (result): camera, number, time, how many fields, fields. 'x' (dead
--   letter): place of the dead letters in KEYS, reason, tries. 'd' (dropped): name of the count.
-- Reply: what was not settled now, each as part, frame (0: all, for somebody else owns the shard) and 0
--   (settled before) or what went wrong. Most of the time that is nothing: saying 'settled' for each
--   frame would cost a tenth of the whole step, and so would reading globals in the loop.
local ARGV, KEYS, call, type = ARGV, KEYS, redis.pcall, type
local group, outputs, n_parts = ARGV[1], ARGV[5], tonumber(ARGV[4])
local owners = redis.call('MGET', unpack(KEYS, 2, n_parts + 1))
local counts, committed, reply = {}, 0, {}

local function note(part, frame, what)
    local n = #reply
    reply[n + 1], reply[n + 2], reply[n + 3] = part, frame, what
end

local function copy_of(stream, id)
    local found = call('XRANGE', stream, id, id)
    if found.err or #found == 0 or #found[1][2] > 1000 then
        return {}
    end
    return found[1][2]
end

-- Writes what a frame of a mixed part ends in: what was written, where, what is counted, and where
-- the next frame begins.
local function write(at, id, results, stream)
    local kind = ARGV[at + 1]
    if kind == 'r' then
        local first = at + 6
        local after = first + 2 * tonumber(ARGV[at + 5])
        local number = ARGV[at + 3]
        local entry
        if number == '' then
            entry = call('XADD', results, '*', 'c', ARGV[at + 2], 'i', id, 't', ARGV[at + 4],
                unpack(ARGV, first, after - 1))
        else
            entry = call('XADD', results, '*', 'c', ARGV[at + 2], 'i', id, 'q', number, 't',
                ARGV[at + 4], unpack(ARGV, first, after - 1))
        end
        return entry, results, 'committed', after
    elseif kind == 'x' then
        local dead = KEYS[tonumber(ARGV[at + 2])]
        local entry = call('XADD', dead, 'MAXLEN', '~', ARGV[3], '*', '_stream', stream, '_id', id,
            '_reason', ARGV[at + 3], '_tries', ARGV[at + 4], unpack(copy_of(stream, id)))
        return entry, dead, 'dead', at + 5
    end
    return false, false, ARGV[at + 2], at + 3
end

local at = 6
for part = 1, n_parts do
    local n_frames, after = tonumber(ARGV[at + 1]), at + 5 + tonumber(ARGV[at + 2])
    if owners[part] ~= ARGV[at] then
        note(part, 0, 0)
    else
        local results, stream = KEYS[1 + n_parts + part], KEYS[1 + 2 * n_parts + part]
        local trims, is_plain = ARGV[at + 3] == '1', ARGV[at + 4] == 'p'
        at = at + 5
        for frame = 1, n_frames do
            local id = ARGV[at]
            local entry, into, name = false, results, false
            if is_plain then
                entry = call('XADD', results, '*', 'c', ARGV[at + 1], 'i', id, 'q', ARGV[at + 2],
                    't', ARGV[at + 3], 'm', outputs, 'd', ARGV[at + 4])
                at = at + 5
            else
                entry, into, name, at = write(at, id, results, stream)
            end
            if type(entry) == 'table' then
                note(part, frame, entry.err)
            else
                -- A frame that is neither pending nor in its stream was settled before.
                local acked = call('XACK', stream, group, id)
                if call('XDEL', stream, id) == 1 or acked == 1 then
                    if is_plain then
                        committed = committed + 1
                    else
                        counts[name] = (counts[name] or 0) + 1
                    end
                else
                    note(part, frame, 0)
                    if entry then
                        redis.call('XDEL', into, entry)
                    end
                end
            end
        end
        if trims then
            call('XTRIM', results, 'MAXLEN', '~', ARGV[2])
        end
    end
    at = after
end
if committed > 0 then
    counts.committed = (counts.committed or 0) + committed
end
for name, n in pairs(counts) do
    redis.call('HINCRBY', KEYS[1], name, n)
end
return reply
