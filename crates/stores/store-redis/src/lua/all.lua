-- All keys or none: try every step. If all are admitted, take them; else only let begin to fill what does not
-- start full. ARGV[#KEYS + 2] names the step of each key, one letter each.
local steps, kinds = {}, ARGV[#KEYS + 2]
local ok, reply = 1, {1, ms, ns}
for i, key in ipairs(KEYS) do
  steps[i] = step_of[string.sub(kinds, i, i)]
  local status, a, b = steps[i](key, ARGV[i], 0)
  if status < ok then ok = status end
  reply[3 + i] = {status, a, b}
end
if ok >= 0 then
  for i, key in ipairs(KEYS) do
    local status = steps[i](key, ARGV[i], 2 - ok)
    if status < ok then ok = status end
  end
end
reply[1] = ok
return reply
