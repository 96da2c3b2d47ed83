-- Before the step: states that the step cannot read, since another rate has written them, are replaced by
-- what the caller has computed, if they are still what it saw. ARGV[from], …: number of the key, value and
-- expiry seen, new value and expiry.
do
  local from = tonumber(ARGV[#ARGV])
  while from + 4 < #ARGV do
    local key = KEYS[tonumber(ARGV[from])]
    local same = redis.call('GET', key) == ARGV[from + 1]
    if same and redis.call('PEXPIRETIME', key) == tonumber(ARGV[from + 2]) then
      if ARGV[from + 3] == '' then
        redis.call('DEL', key)
      else
        redis.call('SET', key, ARGV[from + 3], 'PXAT', ARGV[from + 4])
      end
    end
    from = from + 5
  end
end
