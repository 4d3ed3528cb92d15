-- Settles frames in one atomic step: fence, write results or dead letters, delete, count.
-- Allowed when memory is short, because it frees more than it takes.
--
-- A part is frames of one stream. KEYS: ledger, fence; of all parts how many frames of their streams
--   were settled, their result streams, their streams; then dead letter streams.
-- ARGV: group, results to keep, dead letters to keep, number of parts, what the answers are, what the
--   fence is as far as the sender knows; then per part how many frames and what they are; last the parts
--   whose results are trimmed.
--   Most parts are plain, results of fresh frames: the ids of all, then of each its key and its bytes.
--   A mixed one begins with 'm' and has after the number of frames that of its arguments; of each frame
--   its id, 'f' (fresh) or 'd' (in doubt), and kind. 'r' (result): key, what it is, bytes. 'x' (dead
--   letter): place of the dead letters in KEYS, reason, tries. 'd' (dropped): name of the count.
-- Reply: what was not settled now, each as part, frame and 0 (settled before), 1 (lost: somebody trimmed
--   it away) or what went wrong. Most of the time that is nothing. Nil where the fence is another:
--   nothing was done.
--
-- The fence is another as soon as anybody has taken a shard, so one key says that all shards are still
-- the sender's. In a Cluster, where keys of two shards are never in one command, it is the lease.
--
-- Who deletes a frame has settled it: nothing stays written for a frame that its stream does not have.
-- A fresh frame was read under this lease and never sent before, so nobody can have settled it, and it
-- is not pending. One in doubt may be pending, because it was claimed, or settled, because the answer to
-- an earlier commit was lost.
--
-- What is gone from a stream and was not settled was trimmed away by somebody, read or not. So it is
-- counted as lost by the difference, whoever finds it first, and never twice.
--
-- What costs here is the number of calls and of their arguments, and then reading globals in a loop.
local ARGV, KEYS, type, unpack, tonumber = ARGV, KEYS, type, unpack, tonumber
local call, must = redis.pcall, redis.call
local group, answer, n_parts = ARGV[1], ARGV[5], tonumber(ARGV[4])
if (must('GET', KEYS[2]) or '') ~= ARGV[6] then
    return false
end
local counts, committed, reply = {}, 0, {}

local function note(part, frame, what)
    local n = #reply
    reply[n + 1], reply[n + 2], reply[n + 3] = part, frame, what
end

local function count(name, n)
    counts[name] = (counts[name] or 0) + n
end

local function copy_of(stream, id)
    local found = call('XRANGE', stream, id, id)
    if found.err or #found == 0 or #found[1][2] > 1000 then
        return {}
    end
    return found[1][2]
end

-- A frame was not there to be deleted: what was written for it into `into` is taken back.
local function miss(part, frame, entry, into, is_lost)
    if entry then
        must('XDEL', into, entry)
    end
    note(part, frame, is_lost and 1 or 0)
end

-- Writes what a frame of a mixed part ends in: what was written, where, what is counted, and where
-- the next frame begins.
local function write(at, id, results, stream)
    local kind = ARGV[at]
    if kind == 'r' then
        local entry = call('XADD', results, '*', 'k', ARGV[at + 1], ARGV[at + 2], ARGV[at + 3])
        return entry, results, 'committed', at + 4
    elseif kind == 'x' then
        local dead = KEYS[tonumber(ARGV[at + 1])]
        local entry = call('XADD', dead, 'MAXLEN', '~', ARGV[3], '*', '_stream', stream, '_id', id,
            '_reason', ARGV[at + 2], '_tries', ARGV[at + 3], unpack(copy_of(stream, id)))
        return entry, dead, 'dead', at + 4
    end
    return false, false, ARGV[at + 1], at + 2
end

-- Frames of all sorts; how many were there to be settled.
local function settle_mixed(part, at, n_frames, results, stream)
    local n_settled = 0
    for frame = 1, n_frames do
        local id, is_fresh = ARGV[at], ARGV[at + 1] == 'f'
        local entry, into, name
        entry, into, name, at = write(at + 2, id, results, stream)
        if type(entry) == 'table' then
            note(part, frame, entry.err)
        else
            local was_pending = not is_fresh and call('XACK', stream, group, id) == 1
            if call('XDEL', stream, id) == 1 then
                count(name, 1)
                n_settled = n_settled + 1
            else
                miss(part, frame, entry, into, is_fresh or was_pending)
            end
        end
    end
    return n_settled
end

-- Results of fresh frames; how many were there to be settled.
local function settle_plain(part, at, n_frames, results, stream)
    local value, n_settled = at + n_frames, 0
    for frame = 1, n_frames do
        local entry = call('XADD', results, '*', 'k', ARGV[value], answer, ARGV[value + 1])
        if #entry == 0 then -- no id, but what went wrong
            note(part, frame, entry.err)
        elseif call('XDEL', stream, ARGV[at]) == 1 then
            n_settled = n_settled + 1
        else
            miss(part, frame, entry, results, true)
        end
        at, value = at + 1, value + 2
    end
    committed = committed + n_settled
    return n_settled
end

-- Counts what was settled of a stream, and where a frame was missed also what is lost of it.
local function tally(part, stream, n_settled, n_frames, n_frames_text)
    local key = KEYS[2 + part]
    -- A number that Redis gets as text costs it less.
    local total = call('INCRBY', key, n_settled == n_frames and n_frames_text or n_settled)
    if total == n_settled then
        -- Somebody removed the count, which begins with 1. There is one again once the stream was
        -- looked over, as there is where it was no number.
        must('DEL', key)
    elseif n_settled ~= n_frames and type(total) == 'number' then
        -- Fewer are gone where the stream is, or was made anew.
        local n_lost = math.max(n_gone(stream) + 1 - total, 0)
        count('lost', n_lost)
        must('INCRBY', key, n_lost)
    end
end

-- Making a number of a text is slow, and most parts have few frames.
local numbers = {['1'] = 1, ['2'] = 2, ['3'] = 3, ['4'] = 4}
local at = 7
for part = 1, n_parts do
    local results, stream = KEYS[2 + n_parts + part], KEYS[2 + 2 * n_parts + part]
    if ARGV[at] == 'm' then
        local n_frames = tonumber(ARGV[at + 1])
        local n_settled = settle_mixed(part, at + 3, n_frames, results, stream)
        tally(part, stream, n_settled, n_frames, ARGV[at + 1])
        at = at + 3 + ARGV[at + 2]
    else
        local n_frames = numbers[ARGV[at]] or tonumber(ARGV[at])
        local n_settled = settle_plain(part, at + 1, n_frames, results, stream)
        tally(part, stream, n_settled, n_frames, ARGV[at])
        at = at + 1 + 3 * n_frames
    end
end
if committed > 0 then
    count('committed', committed)
end
for trimmed = at, #ARGV do
    call('XTRIM', KEYS[2 + n_parts + ARGV[trimmed]], 'MAXLEN', '~', ARGV[2])
end
for name, n in pairs(counts) do
    must('HINCRBY', KEYS[1], name, n)
end
return reply
