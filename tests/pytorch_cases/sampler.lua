-- What PyTorch's own tests ask of samplers. T: rows of the common list; D: further tests of the same files.
local rs = require "ringside"
local data, dist = rs.utils.data, rs.distributed

rs.lesson { title = "PyTorch cases: sampler", seed = 1, prefix = "" }

local function all_of(source)
  local out = {}
  for x in source do out[#out + 1] = type(x) == "table" and "{" .. table.concat(x, " ") .. "}" or x end
  return out
end
local function text(list) return table.concat(list, " ") end
local function share(n, world, rank, options) return data.DistributedSampler(rs.arange(n), world, rank, options) end

-- ---- T382: test_distributed_sampler_invalid_rank ----
for _, rank in ipairs { 3, -1 } do
  local ok, why = pcall(share, 12, 3, rank)
  rs.check(("T382 rank %d of 3 is a ValueError"):format(rank), not ok and why.kind == "ValueError")
  rs.check(("T382 which names rank %d and the interval"):format(rank),
    not ok and why.message == ("Invalid rank %d, rank should be in the interval [0, 2]"):format(rank))
end

-- ---- T384: test_DistributedSampler_padding ----
for _, case in ipairs { { 103, 2, true, 51 }, { 104, 3, true, 34 }, { 103, 2, false, 52 }, { 104, 3, false, 35 } } do
  local n, world, drop_last, each = table.unpack(case)
  local all, seen, first = 0, {}, nil
  for rank = 0, world - 1 do
    local sampler = share(n, world, rank, { shuffle = false, drop_last = drop_last })
    local indices = all_of(sampler)
    first = first or #indices
    rs.check(("T384 %d items, world %d, rank %d: %d each, drop_last = %s"):format(n, world, rank, each, drop_last),
      #indices == each and #sampler == each and #indices == first)
    all = all + #indices
    for _, i in ipairs(indices) do seen[i] = (seen[i] or 0) + 1 end
  end
  local distinct, twice = 0, 0
  for _, times in pairs(seen) do distinct, twice = distinct + 1, twice + (times > 1 and 1 or 0) end
  rs.check(("T384 %d items, world %d: %d in all"):format(n, world, each * world), all == each * world)
  rs.check(("T384 %d items, world %d: what is added are items that were there"):format(n, world),
    drop_last and distinct == all and twice == 0 or not drop_last and distinct == n and twice == all - n)
end

-- ---- T387: test_sampler_reproducibility ----
local makers = {
  RandomSampler = function(g) return data.RandomSampler(rs.arange(100), { num_samples = 100, generator = g }) end,
  ["RandomSampler with replacement"] = function(g)
    return data.RandomSampler(rs.arange(100), { num_samples = 100, replacement = true, generator = g })
  end,
  SubsetRandomSampler = function(g) return data.SubsetRandomSampler({ 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 }, { generator = g }) end,
}
for name, make in pairs(makers) do
  local a, b = make(rs.Generator():manual_seed(42)), make(rs.Generator():manual_seed(42))
  for pass = 1, 2 do
    rs.check(("T387 %s: equal seeds, equal orders, pass %d"):format(name, pass), text(all_of(a)) == text(all_of(b)))
  end
  rs.check(("T387 %s: another pass, another order"):format(name), text(all_of(a)) ~= text(all_of(a)))
end

-- ---- further ----
do -- test_sampler: a sampler gives the loader its order, its length, its batches
  local sampler = data.RandomSampler(rs.arange(20), { num_samples = 5, replacement = true })
  local loader = data.DataLoader(rs.arange(20), { sampler = sampler, batch_size = 2 })
  rs.check("D387 a loader is as long as its sampler", #loader == 3 and #all_of(loader) == 3)
  local batches = data.BatchSampler(data.SequentialSampler(rs.arange(10)), 3, true)
  rs.check("D387 a batch sampler of ours", text(all_of(batches)) == "{0 1 2} {3 4 5} {6 7 8}" and #batches == 3)
  local ok = pcall(data.DataLoader, rs.arange(4), { batch_sampler = batches, batch_size = 2 })
  rs.check("D387 batch_sampler excludes batch_size", not ok)
end
do -- test_RandomSampler: sizes that are no integers of 1 or more
  for _, count in ipairs { 0, -1 } do
    local ok, why = pcall(data.RandomSampler, rs.arange(4), { num_samples = count })
    rs.check("D387 num_samples = " .. count .. " is a ValueError", not ok and why.kind == "ValueError")
  end
end
do -- test_SubsetRandomSampler: each once
  local seen = all_of(data.SubsetRandomSampler { 8, 2, 5 })
  table.sort(seen)
  rs.check("D387 a subset's indices come once", text(seen) == "2 5 8")
end
do -- test_default_distributed_sampler: place and number come from the group
  local told = dist.spawn(function(rank)
    local sampler = data.DistributedSampler(rs.arange(7), { shuffle = false })
    return { #sampler, table.unpack(all_of(sampler)) }
  end, { world = 3 })
  rs.check("D384 the group says which share",
    text(told[0]) == "3 0 3 6" and text(told[1]) == "3 1 4 0" and text(told[2]) == "3 2 5 1")
  local ok, why = pcall(data.DistributedSampler, rs.arange(4))
  rs.check("D384 without a group somebody has to", not ok and why.message:find("Default process group", 1, true))
end
do -- fewer items than ranks
  local told = {}
  for rank = 0, 3 do told[rank + 1] = text(all_of(share(2, 4, rank, { shuffle = false }))) end
  rs.check("D384 two items on four ranks go round", text(told) == "0 1 0 1")
  rs.check("D384 or to nobody", #share(2, 4, 0, { drop_last = true }) == 0 and #all_of(share(2, 4, 0, { drop_last = true })) == 0)
end
do -- set_epoch
  local sampler = share(10, 2, 0, { seed = 3 })
  local first, again = text(all_of(sampler)), text(all_of(sampler))
  sampler:set_epoch(1)
  local other = text(all_of(sampler))
  local moved = share(10, 2, 0, { seed = 4 })
  rs.check("D384 without set_epoch every epoch is the first one", first == again and first ~= other)
  rs.check("D384 seed and epoch are added", other == text(all_of(moved)))
end
