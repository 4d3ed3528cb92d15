#!lua flags=allow-oom
-- What scripts that count begin with.

-- How many entries a stream had that are gone: settled, or trimmed away by somebody. 0 where there is no
-- stream.
local function n_gone(stream)
    local about = redis.pcall('XINFO', 'STREAM', stream)
    local known = {}
    for at = 1, #about, 2 do
        known[about[at]] = about[at + 1]
    end
    return known.length and known['entries-added'] - known.length or 0
end

