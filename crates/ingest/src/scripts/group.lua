-- Makes the consumer group of streams that have none, from their first entry on.
-- KEYS: streams. ARGV: group. Reply: per stream 1 (made), 0 (was there) or what went wrong.
local reply = {}
for at, stream in ipairs(KEYS) do
    -- Of a group that has as read what is gone Redis knows at any time how many it has not read.
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
