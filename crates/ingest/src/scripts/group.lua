#!lua flags=allow-oom
-- Makes the consumer group of streams that have none, from their first entry on.
-- KEYS: streams. ARGV: group. Reply: per stream 1 (made), 0 (was there) or what went wrong.
local reply = {}

-- How many entries a stream had that are gone. Of a group that has these as read Redis knows at any time
-- how many it has not read.
local function n_gone(stream)
    local about = redis.pcall('XINFO', 'STREAM', stream)
    local known = {}
    for at = 1, #about, 2 do
        known[about[at]] = about[at + 1]
    end
    return known.length and known['entries-added'] - known.length or 0
end

for at, stream in ipairs(KEYS) do
    local made = redis.pcall('XGROUP', 'CREATE', stream, ARGV[1], '0', 'MKSTREAM', 'ENTRIESREAD',
        n_gone(stream))
    if not made.err then
        reply[at] = 1
    elseif string.find(made.err, 'BUSYGROUP', 1, true) then
        reply[at] = 0
    else
        reply[at] = made.err
    end
end
return reply
