-- As swap.lua, for lists: number of the key, first and last element seen, new expiry, number of elements, the
-- elements.
do
  local from = tonumber(ARGV[#ARGV])
  while from + 4 < #ARGV do
    local key, size = KEYS[tonumber(ARGV[from])], tonumber(ARGV[from + 4])
    if redis.call('LINDEX', key, 0) == ARGV[from + 1] and redis.call('LINDEX', key, -1) == ARGV[from + 2] then
      redis.call('DEL', key)
      for i = 1, size do
        redis.call('RPUSH', key, ARGV[from + 4 + i])
      end
      if size > 0 then
        redis.call('PEXPIREAT', key, ARGV[from + 3])
      end
    end
    from = from + 5 + size
  end
end
