-- ms, ns: the instant that counts, as milliseconds since the Unix epoch and nanoseconds within: the caller's
-- where it sends one after the keys' arguments, else this server's.
local ms, ns
local given = ARGV[#KEYS + 1]
if given and given ~= '' then
  ms, ns = struct.unpack('<dd', given)
else
  local t = redis.call('TIME')
  local us = t[2] + 0
  ns = us % 1000
  ms, ns = t[1] * 1000 + (us - ns) / 1000, ns * 1000
end
