-- The account of one leased key: `Ledger` of the crate `lease`, number by number, which explains the names.
--
-- The key holds a hash: `ledger` is "interval taken out before at ends window crowded crowd epoch"; each node
-- that leases has a field named by its number, "seq held spent epoch". `beyond` is there for a bucket with a
-- deep debt, as "dry_until dry_per_us …", and for a window with charges, as "charged 0 …"; to nodes of an earlier
-- release it looks like a node that holds nothing. The key expires when it equals an unseen key, never earlier.
--
-- ARGV: the terms; the call; the time in us where it is the caller's. All numbers are doubles, and whole.
--
-- Returns {now, rejected, seq, renewed, granted, admitted, taken, out, before, ends, active, crowd, dry}; {-1}:
-- not our state.
local key = KEYS[1]
local MAX_TAKEN, MOST_NODES, LONGEST_WAIT, CROWDED = 4503599627370496, 1024, 60000000, 3000000
local HELD_EPOCHS, LATEST, MOST_HITS = 8, 3221225471000000, 17179869183
local LEASE, TAKE, GIVE_BACK, CHARGE, RESET, TRY = 0, 1, 2, 3, 5, 6
local interval, per_us, burst, max_promised, ration, tau, longest, first_hit = struct.unpack('<dddddddd', ARGV[1])
-- Of a lease: node, seq, held, spent, want, need, least. Of the others: cost and how often.
local op, window_ends, node, seq, held, spent, want, need, least = struct.unpack('<ddddddddd', ARGV[2])
local cost, times = node, seq
local full, windows = burst * interval, per_us == 0
local now
if ARGV[3] then
  now = struct.unpack('<d', ARGV[3])
else
  local t = redis.call('TIME')
  now = t[1] * 1000000 + t[2]
end

local id = op == LEASE and string.format('%.0f', node) or 'none'
local found = redis.pcall('HMGET', key, 'ledger', id, 'beyond')
if found.err then
  return {-1}
end
local v, known, more = found[1], found[2], found[3]
local nodes = redis.call('HLEN', key)
local of, taken, out, before, at, ends, window, crowded, crowd, epoch = 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
local dry_until, dry_per_us, charged = 0, 0, 0
if v then
  of, taken, out, before, at, ends, window, crowded, crowd, epoch =
    string.match(v, '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
  if not of then
    return {-1}
  end
  if more then
    dry_until, dry_per_us = string.match(more, '^(%d+) (%d+) ')
    if not dry_until then
      return {-1}
    end
    dry_until, dry_per_us, nodes = tonumber(dry_until), tonumber(dry_per_us), nodes - 1
    if windows then
      charged, dry_until = dry_until, 0
    end
  end
  of, taken, out, before = tonumber(of), tonumber(taken), tonumber(out), tonumber(before)
  at, ends, window, crowded = tonumber(at), tonumber(ends), tonumber(window), tonumber(crowded)
  crowd, epoch, nodes = tonumber(crowd), tonumber(epoch), nodes - 1
elseif nodes > 0 then
  return {-1}
end
local gone, anew = {}, false

local function units(permits)
  return math.min(permits * interval, MAX_TAKEN)
end

-- A debt beyond MAX_TAKEN is the time in which it comes back.
local function stay_dry(from, for_us)
  dry_until, dry_per_us = math.max(from, math.min(from + for_us, LATEST)), per_us
  if for_us == 0 then
    dry_until, dry_per_us = 0, 0
  end
end

-- After a change of the rate, what is owed stays the same in permits, including the part of a permit; rounded
-- up by two units at most.
if dry_until > 0 and (of ~= interval or dry_per_us ~= per_us) then
  local stretch = windows and 0 or interval / per_us / (of / dry_per_us)
  stay_dry(at, math.ceil(math.max(0, dry_until - at) * stretch))
end
if of ~= interval and of ~= 0 then
  local rest = taken % of
  local part = rest > 0 and math.min(interval, math.ceil(rest / of * interval) + 1) or 0
  taken = math.min(units((taken - rest) / of) + part, MAX_TAKEN)
end

-- The time to continue from: a clock that went back a little is waited out.
if at - now > LONGEST_WAIT then
  dry_until = math.max(0, dry_until - (at - now))
  at, ends = now, now + tau
end
now = math.max(now, at)

-- Brings the refill until `to`. What is owed never falls below what is out.
local function refill(to)
  if dry_until > 0 then
    at = math.max(at, math.min(to, dry_until))
    if to >= dry_until then
      dry_until, dry_per_us = 0, 0
    end
  end
  local elapsed = math.min(math.max(0, to - at), math.floor(taken / per_us) + 1)
  taken = math.max(0, taken - elapsed * per_us, math.min(units(out + before), taken))
  at = math.max(at, to)
end

-- Begins the epochs that are due: what a node held that sent nothing in all of the last one counts as spent.
local function turn_epochs()
  if nodes > 0 and ends <= now then
    local all, entries = redis.call('HGETALL', key), {}
    for i = 1, #all, 2 do
      if all[i] ~= 'ledger' and all[i] ~= 'beyond' then
        local has, last = string.match(all[i + 1], '(%d+) %d+ (%d+)$')
        entries[all[i]] = {tonumber(has), tonumber(last)}
      end
    end
    while nodes > 0 and ends <= now do
      if not windows then
        -- First what comes back until the epoch's end, under the floor that held until then: lost refill
        -- stays lost.
        refill(ends)
      end
      before, out, epoch, ends = windows and 0 or out, 0, epoch + 1, ends + tau
      for name, entry in pairs(entries) do
        -- In a window nothing comes back by time: nodes can report for some more epochs what lapsed.
        if entry[2] + (windows and entry[1] > 0 and HELD_EPOCHS or 1) < epoch then
          entries[name], nodes = nil, nodes - 1
          gone[#gone + 1] = name
          if name == id then
            known = false
          end
        elseif windows then
          out = out + entry[1]
        end
      end
    end
  end
  if nodes == 0 then
    ends = now + tau
  end
end

if not windows then
  window = 0
  turn_epochs()
  refill(now)
else
  local till = first_hit == 1 and now + longest or window_ends
  local possible = now < till and till - now <= longest
  -- Beyond: the clock went back too far to wait for the window's end. What was counted stays counted until a
  -- nearer end, but not nearer than that of the leases that are out.
  local over, beyond = window <= now, window - now > longest + LONGEST_WAIT
  if (over or beyond) and not possible then
    return {now, 1, op == LEASE and seq or 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
  end
  if over then
    taken, out, before, epoch, crowded, crowd, window = 0, 0, 0, 0, 0, 0, till
    charged = 0
    nodes, known, anew = 0, false, true
  elseif beyond then
    window = math.max(till, now + tau)
  end
  turn_epochs()
  at = now
end

local rejected, answers, renewed, granted = 0, 0, 0, 0
local admitted = taken <= full and 1 or 0
local entry
if op == LEASE then
  answers, admitted = seq, 0
  local k_seq, k_held, k_spent, k_epoch
  if known then
    k_seq, k_held, k_spent, k_epoch = string.match(known, '^(%d+) (%d+) (%d+) (%d+)$')
    k_seq, k_held, k_spent, k_epoch = tonumber(k_seq), tonumber(k_held), tonumber(k_spent), tonumber(k_epoch)
  end
  if known and seq <= k_seq then
    rejected = 1
  elseif known or nodes < MOST_NODES then
    local kept, active = 0, nodes
    if known then
      if k_epoch == epoch or windows then
        out = math.max(0, out - k_held)
      elseif k_epoch + 1 == epoch then
        before = math.max(0, before - k_held)
      end
      -- Holding more than was granted: the store has lost writes, and what it does not know of is dropped.
      if held <= k_held then
        kept, renewed = held, 1
        local unspent = math.max(0, k_held - held - math.max(0, spent - k_spent))
        if unspent > 0 then
          -- Hits that a full window denied, and counted, do not swallow what comes back.
          taken = math.max(0, (windows and math.min(taken, full + charged) or taken) - units(unspent))
        end
      end
    else
      active = active + 1
      nodes = active
    end
    local held_by_all = out + before + kept
    local room = math.floor(math.max(0, full - taken) / interval)
    local ration = math.max(1, math.floor(ration / active))
    -- With half of the burst out, rations end, or central takes would find nothing.
    local spare = math.max(0, math.floor(burst / 2) - held_by_all)
    local ahead_of_need = math.max(math.min(ration, spare), math.floor(room / (2 * active)))
    local share = math.min(math.max(need, least, ahead_of_need), want)
    if share <= room or windows then
      granted = math.min(share, room)
    else
      local part = math.ceil(max_promised / (interval * active))
      local turn = math.max(part, math.min(2, math.floor(burst / (2 * active))), 1)
      -- Out never exceeds the burst, so that the refill that pays for a promise is never held up.
      local uncommitted = math.max(0, burst - held_by_all)
      -- A place in the queue for what comes back: one for each node, and at its end.
      local has_place = math.max(0, taken - full) < turn * active * interval
      -- Nodes hold all that is owed, unspent, so that refill is held up.
      local held_up = need > 0 and room < least and taken < units(held_by_all + 1)
      -- There are fewer places than nodes, and a node that has one keeps it.
      local no_places = uncommitted < least and active * least > burst
      if has_place and (held_up or no_places) then
        crowd, crowded = active, now + CROWDED
      end
      if has_place and crowded <= now then
        granted = math.min(math.max(turn, room, least), want, uncommitted)
      else
        granted = room
      end
    end
    if granted < least then
      granted = 0
    end
    taken = taken + granted * interval
    out = out + kept + granted
    entry = string.format('%.0f %.0f %.0f %.0f', seq, kept + granted, spent, epoch)
  end
elseif op == TAKE or op == TRY then
  if cost == 0 then
    admitted = taken <= full and times or 0
  else
    local fit = 0
    if cost <= burst then
      fit = math.floor(math.max(0, full - taken) / (cost * interval))
    end
    admitted = math.min(fit, times)
    -- A window counts denied hits too, as far as they say anything.
    local most = windows and burst < MOST_HITS and MOST_HITS or MAX_TAKEN
    taken = math.max(taken, math.min(taken + units(cost * (windows and op == TAKE and times or admitted)), most))
  end
elseif op == GIVE_BACK then
  cost = math.min(cost, 9007199254740992)
  local dry, permit_us = math.max(0, dry_until - now), interval / per_us
  local permits = dry > 0 and math.floor(dry / permit_us) or 0
  if dry > 0 and cost <= permits then
    stay_dry(now, dry - math.min(dry, math.max(0, math.ceil(cost * permit_us) - 1)))
  else
    if dry > 0 then
      cost = cost - permits
      local rest = math.max(0, dry - math.ceil(permits * permit_us)) + 1
      taken = math.min(taken + rest * per_us, MAX_TAKEN)
      stay_dry(now, 0)
    end
    taken = math.max(0, taken - units(cost), units(out + before))
  end
elseif op == CHARGE then
  cost = math.min(cost, 9007199254740992)
  admitted = full - taken >= interval and 1 or 0
  if windows then
    taken, charged = math.min(taken + units(cost), MAX_TAKEN), math.min(charged + cost, MAX_TAKEN)
  else
    local fit = math.min(cost, math.floor((MAX_TAKEN - taken) / interval))
    taken = taken + fit * interval
    if cost > fit then
      stay_dry(now, math.max(0, dry_until - now) + math.ceil((cost - fit) * (interval / per_us)))
    end
  end
end

if windows and taken > MOST_HITS then
  window = math.ceil(window / 20000) * 20000 -- as in core
end
if taken == 0 and nodes == 0 or op == RESET then
  if v then
    redis.call('DEL', key)
  end
else
  if anew and v then
    redis.call('DEL', key)
  elseif #gone > 0 then
    redis.call('HDEL', key, unpack(gone))
  end
  local text = string.format('%.0f %.0f %.0f %.0f %.0f %.0f %.0f %.0f %.0f %.0f', interval, taken, out, before, at, ends,
    window, crowded, crowd, epoch)
  if charged > 0 or dry_until > 0 then
    local first, second = charged > 0 and charged or dry_until, charged > 0 and 0 or dry_per_us
    redis.call('HSET', key, 'beyond', string.format('%.0f %.0f 0 0 %.0f', first, second, 2 ^ 53 - 1))
  elseif more then
    redis.call('HDEL', key, 'beyond')
  end
  if entry then
    redis.call('HSET', key, 'ledger', text, id, entry)
  else
    redis.call('HSET', key, 'ledger', text)
  end
  local forget = window
  if not windows then
    forget = (nodes == 0 and at or ends + tau) + math.ceil(taken / per_us) + math.max(0, dry_until - at)
  end
  forget = math.ceil(forget / 1000)
  if ARGV[3] then
    -- The caller's clock may be behind this server's, by which keys expire.
    local t = redis.call('TIME')
    forget = math.max(forget, t[1] * 1000 + math.ceil(t[2] / 1000) + forget - math.floor(now / 1000))
  end
  redis.call('PEXPIREAT', key, string.format('%.0f', math.min(forget, 9e15)))
end
return {now, rejected, answers, renewed, granted, admitted, taken, out, before, windows and window or ends, nodes,
  crowded > now and crowd or 0, math.max(0, dry_until - now)}
