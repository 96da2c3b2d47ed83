-- One key that holds a number: take the step, and answer with what was there before, in few bytes: the instant, when the
-- key was to expire, and the number or -1.
local status, a, b = step(KEYS[1], ARGV[1], 1)
if status < 0 or type(b) == 'string' then
  return {status, ms, ns, a, b}
end
return struct.pack('<dddd', ms, ns, a, b or -1)
