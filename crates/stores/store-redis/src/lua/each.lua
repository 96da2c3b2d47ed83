-- Keys that share an algorithm, each by itself: take the step, and return what was there before. An empty
-- argument is the same as the one before it.
--
-- Returns first the instant; then for each key, in few bytes, when it was to expire and the number that it
-- held, or -1.
--
-- What is not a number is returned in words: status, expiry, what it held; and -3 with the error where a
-- command failed and this key was not changed.
if #KEYS == 1 then -- its error can be the reply's, which is cheaper
  local status, a, b = step(KEYS[1], ARGV[1], 1)
  if status >= 0 and (not b or type(b) == 'number') and type(a) == 'number' then
    return struct.pack('<dddd', ms, ns, a, b or -1)
  end
  return {struct.pack('<dd', ms, ns), {status, a, b}}
end
local out, plain, arg = {struct.pack('<dd', ms, ns)}, true, nil
for i, key in ipairs(KEYS) do
  if ARGV[i] ~= '' then
    arg = ARGV[i]
  end
  local ran, status, a, b = pcall(step, key, arg, 1)
  if ran and status >= 0 and (not b or type(b) == 'number') and type(a) == 'number' then
    out[i + 1] = struct.pack('<dd', a, b or -1)
  else
    plain = false
    if ran then
      out[i + 1] = {status, a, b}
    else
      out[i + 1] = {-3, type(status) == 'table' and status.err or status}
    end
  end
end
if plain then
  return table.concat(out)
end
return out
