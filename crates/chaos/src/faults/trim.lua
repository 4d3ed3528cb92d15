-- Trims away what the group has read and nobody has settled: what is being worked on at this moment.
-- KEYS: streams. Reply: the numbers of the frames that are gone.
local numbers = {}
for _, stream in ipairs(KEYS) do
    local groups = redis.pcall('XINFO', 'GROUPS', stream)
    local read = #groups == 1 and groups[1]
    for at = 1, read and #read or 0, 2 do
        if read[at] == 'last-delivered-id' then
            local entries = redis.call('XRANGE', stream, '-', read[at + 1])
            for _, entry in ipairs(entries) do
                for field = 1, #entry[2], 2 do
                    if entry[2][field] == 'q' then
                        numbers[#numbers + 1] = tonumber(entry[2][field + 1])
                    end
                end
            end
            redis.call('XTRIM', stream, 'MAXLEN', redis.call('XLEN', stream) - #entries)
        end
    end
end
return numbers
