-- Sliding windows with one entry per instant: the log, and the strict window of cells, which is a log whose
-- instants are the beginnings of cells, and which counts a cell longer.
--
-- The key holds a list. Its head: what wrote it (the log, or the lengths of window and cell), the latest
-- instant (of cells only), and how many permits have left. Then what was taken, oldest first: the instant in
-- ms and ns, and the permits taken since the list began, up to and including that instant. So what counts is
-- the last number less the head's.
--
-- Arguments:
-- * cell_ms, cell: length of a cell, or 0. from: beginning of the cell that the caller believes to contain
--   now.
-- * keeps: 1 where denied takes are logged too, -1 for cells. Groups as in window.lua; -4 asks whether a
--   permit is left.
-- * go: 0 only try, 1 do, 2 nothing.
--
-- Returns the head as it was, how many entries have left, the entries that say when denied takes would fit,
-- and the last entry; or -2 where `from` is too far from now to be counted from.
local ENTRIES_MOST = 2251799813685247
local function entries(key, arg, go)
  local limit, w_ms, w, cell_ms, cell, from_ms, from, keeps, tag, n, cost, hold, at =
    struct.unpack('<ddddddddsddd', arg)
  local raw, known, base, head_ms, head_ns, size, first = {}, {}, 0, 0, 0, 0, 1
  local function entry(i)
    if not known[i] then
      raw[i] = raw[i] or redis.call('LINDEX', key, i)
      local a, b, c = string.match(raw[i], '^(%d+) (%d+) (%d+)$')
      known[i] = {tonumber(a), tonumber(b), tonumber(c)}
    end
    return known[i]
  end

  -- The first entry, from i and before `last`, for which `is` is true; else `last`. The entries for which it
  -- is false come first and are usually few: the stride doubles, then halves.
  local function seek(i, last, is)
    local stride = 1
    while i < last do
      local middle = math.min(math.floor((i + last) / 2), i + stride - 1)
      if is(entry(middle)) then
        last = middle
      else
        i, stride = middle + 1, stride * 2
      end
    end
    return i
  end

  local begins = redis.call('LRANGE', key, 0, 1)
  local head = begins[1]
  if head then
    raw[1] = begins[2]
    local which, a, b, c = string.match(head, '^(%S+) (%d+) (%d+) (%d+)$')
    size = redis.call('LLEN', key) - 1
    if which ~= tag or size > 0 and entry(size)[3] > 4e15 then
      return -1, redis.call('LRANGE', key, 0, -1)
    end
    head_ms, head_ns, base = tonumber(a), tonumber(b), tonumber(c)
  end

  -- The instant that counts: of cells, the beginning of now's. After a step back the clock stands still.
  local here_ms, here_ns = ms, ns
  if cell_ms + cell > 0 then
    if is_far(ms - from_ms, cell_ms, cell) then
      return -2, {}
    end
    local _, r_ms, r = divide(ms - from_ms, ns - from, cell_ms, cell)
    here_ms, here_ns = ms - r_ms, ns - r
    if here_ns < 0 then
      here_ms, here_ns = here_ms - 1, here_ns + 1000000
    end
  end
  local at_ms, at_ns = here_ms, here_ns
  if at_ms < head_ms or at_ms == head_ms and at_ns < head_ns then
    at_ms, at_ns = head_ms, head_ns
  end

  -- What has left the window.
  first = seek(1, size + 1, function(e)
    return (at_ms - e[1] - w_ms) * 1000000 + at_ns - e[2] - w < 0
  end)
  if first > 1 then
    base = math.max(base, entry(first - 1)[3])
  end
  local had, since, started = size, first, base
  if size >= first then
    entry(size)
  end

  local moved, grown, wiped, too_large, asked, ok = false, false, false, false, {}, 1
  local function used()
    return first <= size and entry(size)[3] - base or 0
  end
  local function add(permits)
    permits = math.min(permits, ENTRIES_MOST - used())
    if permits <= 0 then
      return
    end
    local e = first <= size and entry(size)
    if not e or at_ms > e[1] or at_ms == e[1] and at_ns > e[2] then
      if size > had then
        first = size -- what this call had added was all given back
      else
        size = size + 1
      end
      known[size] = {at_ms, at_ns, (e and e[3] or base) + permits}
    else
      e[3] = e[3] + permits
    end
    grown, too_large = true, too_large or known[size][3] > 8e15
  end
  -- While the younger alone are above the limit, nothing fits, whatever the oldest is: it joins the next one,
  -- whose number has it already.
  local function join()
    local sum = first <= size and entry(size)[3]
    first = seek(first, size, function(e)
      return sum - e[3] <= limit
    end)
  end
  -- Permits that may not fit: an entry grows to the limit and one at most.
  local function add_beyond(permits)
    local e, newest = first <= size and entry(size), 0
    if e and (at_ms < e[1] or at_ms == e[1] and at_ns <= e[2]) then
      newest = e[3] - (first < size and entry(size - 1)[3] or base)
    end
    add(math.max(0, math.min(permits, limit + 1 - newest)))
    join()
  end
  -- Which entry has left when a permit is left again.
  local function ask_for_one()
    if limit > 0 and used() >= limit then
      asked[#asked + 1] = base + used() - limit + 1
    end
  end

  while true do
    if n > 0 then
      local fit, free = n, limit - used()
      if cost > 0 then
        fit = math.max(0, math.min(n, math.floor(free / cost)))
      elseif free < 0 then
        fit = 0
      end
      add(fit * cost)
      moved = moved or hold == 0 or fit > 0
      if fit < n then
        ok = 0
        local times = keeps == 1 and hold == 0 and n - fit or 1
        for _ = 1, times do
          if keeps == 1 and hold == 0 then
            add_beyond(cost)
          end
          if cost <= limit then
            asked[#asked + 1] = base + used() - limit + cost
          end
        end
      end
    elseif n == 0 then
      moved = true
      add(cost)
      if keeps >= 0 and cost > 0 then
        join()
      end
      ask_for_one()
    elseif n == -4 then
      moved = true
      ask_for_one()
    elseif n == -1 then
      moved = true
      base = base + math.min(cost, used())
      first = seek(first, size + 1, function(e)
        return e[3] > base
      end)
    elseif n == -3 and used() > limit then
      asked[#asked + 1] = base + used() - limit
    elseif n == -2 then
      moved, grown, wiped, first, size, base = false, false, true, 1, 0, 0
    end
    if at > #arg then
      break
    end
    n, cost, hold, at = struct.unpack('<ddd', arg, at)
  end

  if too_large then -- for sums that a double holds: counted from zero again, by the caller
    return -1, redis.call('LRANGE', key, 0, -1)
  end

  -- Of what was there: the entries at which a denied take would fit, each with the one before it, and the
  -- last.
  local reply = {head, started}
  if had >= since then
    local shown = {}
    for _, wanted in ipairs(asked) do
      local low = seek(since, had, function(e)
        return e[3] >= wanted
      end)
      shown[low], shown[low - 1] = true, low > since or nil
    end
    shown[had] = nil
    local order = {}
    for i in pairs(shown) do
      order[#order + 1] = i
    end
    table.sort(order)
    order[#order + 1] = had
    for _, i in ipairs(order) do
      reply[#reply + 1] = raw[i] or redis.call('LINDEX', key, i)
    end
  end

  if go == 1 then
    if wiped then
      redis.call('DEL', key)
      head = false
    end
    if grown or head and moved then
      local live = first <= size
      if cell_ms + cell > 0 then
        head_ms, head_ns = at_ms, at_ns
      end
      local new = string.format('%s %d %d %d', tag, head_ms, head_ns, base)
      if not head then
        redis.call('RPUSH', key, new)
      end
      if live and grown then
        local e = entry(size)
        local text = string.format('%d %d %d', e[1], e[2], e[3])
        if size > had then
          redis.call('RPUSH', key, text)
        else
          redis.call('LSET', key, -1, text)
        end
      end
      if grown then
        local e = entry(size)
        redis.call('PEXPIREAT', key, string.format('%d', e[1] + w_ms + math.ceil((e[2] + w) / 1000000)))
      end
      if head and not live then
        redis.call('LTRIM', key, 0, 0)
      elseif head and first > 1 then
        redis.call('LTRIM', key, first - 1, -1)
      end
      if head and (first > 1 or new ~= head) then
        redis.call('LSET', key, 0, new)
      end
    end
  end
  return ok, reply
end
