-- One key: take the step, and answer with what was there before.
local status, a, b = step(KEYS[1], ARGV[1], 1)
return {status, ms, ns, a, b}
