-- PyTorch cases: groups of ranks, row by row. The rules of the same form beside them: other worlds, other lists.
local rs = require "ringside"
local dist = rs.distributed

rs.lesson { title = "PyTorch cases: groups", seed = 6, prefix = "" }

local function refused(kind, words, f, ...)
  local ok, e = pcall(f, ...)
  if ok or type(e) ~= "table" or e.kind ~= kind then return false end
  for _, word in ipairs(words) do
    if not e.message:find(word, 1, true) then return false end
  end
  return true
end
local function all(results, world)
  for rank = 0, world - 1 do
    if results[rank] ~= true then return false end
  end
  return true
end
local function numbers(list) return table.concat(list, " ") end

-- T152: test_get_rank
for _, world in ipairs { 1, 3, 5 } do
  local ranks = dist.spawn(function(rank) return { dist.get_rank(), dist.get_world_size() } end, { world = world })
  local seen, distinct = {}, 0
  for rank = 0, world - 1 do
    if not seen[ranks[rank][1]] and ranks[rank][2] == world then distinct = distinct + 1 end
    seen[ranks[rank][1]] = true
  end
  rs.check("T152 " .. world .. " ranks have " .. world .. " numbers", distinct == world)
end

-- T154: test_Backend_enum_class
rs.check("T154 Backend takes upper case", dist.Backend("LOCAL") == "local" and dist.Backend("local") == "local")
rs.check("T154 Backend knows PyTorch's", dist.Backend("GLOO") == "gloo" and dist.Backend.NCCL == "nccl")
for name, wrong in pairs { unknown = "xYz", undefined = "undefined", ["a number"] = 3, ["a list"] = { "local" } } do
  rs.check("T154 Backend refuses " .. name, refused("ValueError", {}, dist.Backend, wrong))
end
rs.check("T154 Backend refuses nil", refused("ValueError", { "string" }, dist.Backend, nil))

-- T157: test_destroy_group, test_destroy_full_group
rs.check("T157 a group ends, the default one still works; that ends, and there is none", all(dist.spawn(function(rank)
  local function gone(group)
    return not pcall(dist.barrier, group) and not pcall(dist.get_rank, group)
  end
  local pair = dist.new_group { 0, 2 }
  dist.barrier(pair)
  dist.destroy_process_group(pair)
  local ok = rank == 1 or gone(pair)
  local t = rs.ones(1)
  dist.all_reduce(t)
  ok = ok and t:item() == 3
  local full = dist.new_group()
  dist.barrier(full)
  dist.destroy_process_group(full)
  local last = dist.new_group { 0, 1, 2 }
  dist.barrier()
  dist.destroy_process_group()
  return ok and gone(full) and gone(last) and not dist.is_initialized() and dist.group.WORLD == nil
    and not pcall(dist.get_world_size)
end, { world = 3 }), 3))

-- T159: test_new_subgroups
for _, case in ipairs { { 4, 2, { 1, 1, 5, 5 } }, { 6, 3, { 3, 3, 3, 12, 12, 12 } }, { 4, 4, { 6, 6, 6, 6 } } } do
  local world, size, sums = table.unpack(case)
  rs.check(("T159 subgroups of %d in a world of %d"):format(size, world), all(dist.spawn(function(rank)
    local mine, groups = dist.new_subgroups { group_size = size }
    local t = rs.tensor { rank }
    dist.all_reduce(t, { group = mine })
    local members = 0
    for _, group in ipairs(groups) do
      if group ~= dist.GroupMember.NON_GROUP_MEMBER then members = members + 1 end
      dist.destroy_process_group(group)
    end
    return t:item() == sums[rank + 1] and #groups == world // size and members == 1
  end, { world = world }), world))
end
rs.check("T159 sizes that do not divide the world", all(dist.spawn(function(rank)
  return refused("ValueError", { "must be divisible" }, dist.new_subgroups, 3)
    and refused("ValueError", { "must not exceed the world size" }, dist.new_subgroups, 5)
    and refused("ValueError", { "must be positive" }, dist.new_subgroups, 0)
    and refused("ValueError", { "must be positive" }, dist.new_subgroups, -2)
end, { world = 4 }), 4))

-- T162: test_new_subgroups_by_enumeration
rs.check("T162 {0, 2} and {1, 3}: each rank gets its own", all(dist.spawn(function(rank)
  local mine, groups = dist.new_subgroups_by_enumeration { { 0, 2 }, { 1, 3 } }
  local t = rs.tensor { rank }
  dist.all_reduce(t, { group = mine })
  return t:item() == ({ 2, 4, 2, 4 })[rank + 1] and #groups == 2 and groups[rank % 2 + 1] == mine
    and groups[2 - rank % 2] == dist.GroupMember.NON_GROUP_MEMBER
end, { world = 4 }), 4))
rs.check("T162 a rank in no list has no group, one in two is refused", all(dist.spawn(function(rank)
  local mine = dist.new_subgroups_by_enumeration { { 2 }, { 0 } }
  return (mine == nil) == (rank == 1)
    and refused("ValueError", { "rank 1" }, dist.new_subgroups_by_enumeration, { { 0, 1 }, { 1, 2 } })
    and refused("ValueError", { "empty" }, dist.new_subgroups_by_enumeration, {})
end, { world = 3 }), 3))

-- T164: test_new_subgroups_by_enumeration_negative_input_rank
rs.check("T164 ranks below 0 and beyond the world", all(dist.spawn(function(rank)
  return refused("ValueError", { "rank -1" }, dist.new_subgroups_by_enumeration, { { -1, -2 }, { -3, -4 } })
    and refused("ValueError", { "rank -2" }, dist.new_group, { -2, 0 })
    and refused("ValueError", { "rank 2" }, dist.new_group, { 1, 2 })
end, { world = 2 }), 2))

-- T167: test_gloo_rank_membership
rs.check("T167 the only member of a group is its rank 0", all(dist.spawn(function(rank)
  local group = dist.new_group { 1 }
  return dist.get_group_rank(group, 1) == 0 and dist.get_global_rank(group, 0) == 1
    and refused("ValueError", { "not part of the group" }, dist.get_group_rank, group, 0)
    and refused("ValueError", { "not part of the group" }, dist.get_global_rank, group, 1)
    and numbers(dist.get_process_group_ranks(group)) == "1" and numbers(dist.get_process_group_ranks()) == "0 1"
    and dist.get_rank(group) == rank - 1 and dist.get_world_size(group) == (rank == 1 and 1 or -1)
end, { world = 2 }), 2))

-- T169: test_local_sync: pairs that only their members make, all at once
rs.check("T169 pairs made at once", all(dist.spawn(function(rank)
  local first = rank // 2 * 2
  local pair = dist.new_group({ first, first + 1 }, { use_local_synchronization = true })
  local got = {}
  dist.all_gather(got, rs.tensor { rank }, { group = pair })
  return got[1]:item() == first and got[2]:item() == first + 1
end, { world = 4 }), 4))
rs.check("T169 rank r with r + 1, in turns", all(dist.spawn(function(rank)
  local ok = true
  for first = 0, 2 do
    if rank == first or rank == first + 1 then
      local pair = dist.new_group({ first, first + 1 }, { use_local_synchronization = true })
      local t = rs.tensor { rank }
      dist.all_reduce(t, { group = pair })
      ok = ok and t:item() == 2 * first + 1
    end
  end
  return ok
end, { world = 4 }), 4))

-- T172: test_sequence_num_incremented_default, _subgroup
rs.check("T172 ten all-reduces, ten numbers more", all(dist.spawn(function(rank)
  local world, part = dist.group.WORLD, dist.new_group { 0, 2 }
  local function count(group)
    local before = group:_get_sequence_number_for_group()
    for _ = 1, 10 do dist.all_reduce(rs.ones(2), { group = group }) end
    local seen = {}
    dist.all_gather(seen, rs.tensor { group:_get_sequence_number_for_group() }, { group = group })
    for _, number in ipairs(seen) do
      if number:item() ~= before + 10 then return false end
    end
    return group:_get_sequence_number_for_group() == before + 11
  end
  return count(world) and (rank == 1 or count(part))
end, { world = 3 }), 3))

-- T174: test_set_gloo_pg_timeout
rs.check("T174 a group's time limit is read, set and read", all(dist.spawn(function(rank)
  local group = dist.new_group({ 0, 1 }, { timeout = 50 })
  local read = group.options._timeout
  group:_set_default_timeout(23)
  local set = group.options._timeout
  dist.set_timeout(7.5, group)
  return read == 50 and set == 23 and group.options._timeout == 7.5 and dist.group.WORLD.options._timeout == 1800
    and refused("ValueError", { "seconds" }, dist.set_timeout, 0)
    and refused("ValueError", { "seconds" }, dist.set_timeout, 0 / 0)
    and refused("ValueError", { "seconds" }, dist.new_group, { 0 }, { timeout = -1 })
end, { world = 2 }), 2))

-- T132: test_on_completion_hook_seq, test_on_completion_hook_broadcast
rs.check("T132 three broadcasts complete, and the last has number 3", all(dist.spawn(function(rank)
  local group = dist.group.WORLD
  local seen, durations = {}, 0
  group:_register_on_completion_hook(function(info)
    seen[#seen + 1] = info.op_type .. " " .. info.seq
    if info.active_duration > 0 and info.time_finished >= info.time_started then durations = durations + 1 end
  end)
  for i = 1, 3 do dist.broadcast(rs.ones(2, 3) * rank, 0, { async_op = i == 2 }) end
  group:_wait_for_pending_works()
  local again = refused("RuntimeError", { "already registered" }, group._register_on_completion_hook, group, print)
  return table.concat(seen, ", ") == "BROADCAST 1, BROADCAST 2, BROADCAST 3" and durations == 3 and again
end, { world = 2 }), 2))
rs.check("T132 a hook that fails is told to who waits", not pcall(dist.spawn, function(rank)
  dist.group.WORLD:_register_on_completion_hook(function() error("in a hook") end)
  dist.barrier()
end, { world = 2 }))
rs.check("T132 what has not ended when a script does is not told", all(dist.spawn(function(rank)
  dist.group.WORLD:_register_on_completion_hook(function() end)
  for _ = 1, 20 do dist.all_reduce(rs.ones(100), { async_op = true }) end
  return true
end, { world = 3 }), 3))
