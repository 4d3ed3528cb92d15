#!lua flags=allow-oom
-- Puts a dead letter back at the end of the stream it came from.
-- KEYS: dead letters, stream, ledger. ARGV: the dead letter's id. Reply: the new id, or '' where
-- there is no such dead letter or nothing of its frame is left.
local found = redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[1])
if #found == 0 then
    return ''
end
local fields = {}
for at = 1, #found[1][2], 2 do
    if string.sub(found[1][2][at], 1, 1) ~= '_' then
        fields[#fields + 1] = found[1][2][at]
        fields[#fields + 1] = found[1][2][at + 1]
    end
end
if #fields == 0 then
    return ''
end
local id = redis.call('XADD', KEYS[2], '*', unpack(fields))
redis.call('XDEL', KEYS[1], ARGV[1])
redis.call('HINCRBY', KEYS[3], 'replayed', 1)
return id
