-- Samplers: their orders, how long they say they are, what they draw, and what they refuse.
local rs = require "ringside"
local data = rs.utils.data
rs.lesson { title = "samplers", devices = 0 }
local function list(n) return rs.arange(n) end
local function told(name, sampler)
  local row = { name, tostring(#sampler) }
  for i in sampler do row[#row + 1] = type(i) == "table" and "[" .. table.concat(i, ", ") .. "]" or tostring(i) end
  print(table.concat(row, " "))
end

rs.manual_seed(1)
told("in_order=", data.SequentialSampler(list(5)))
told("random=", data.RandomSampler(list(7)))
told("random=", data.RandomSampler(list(7), { num_samples = 17 }))
told("replacement=", data.RandomSampler(list(7), { replacement = true, num_samples = 40 }))
told("subset=", data.SubsetRandomSampler { 9, 4, 7, 2 })
local g = rs.Generator():manual_seed(3)
told("generator=", data.RandomSampler(list(7), { generator = g }))
told("generator=", data.SubsetRandomSampler({ 9, 4, 7, 2 }, { generator = g }))
print(("after %.7g %.7g"):format(rs.rand(1):item(), rs.rand({ 1 }, { generator = g }):item()))
for _, drop_last in ipairs { false, true } do
  told("batches=", data.BatchSampler(data.RandomSampler(list(8)), 3, drop_last))
end
for _, n in ipairs { 1, 2, 5, 10, 103 } do
  for world = 1, 4 do
    for _, drop_last in ipairs { false, true } do
      for rank = 0, world - 1 do
        told("share=", data.DistributedSampler(list(n), world, rank, { shuffle = false, drop_last = drop_last }))
        local sampler = data.DistributedSampler(list(n), world, rank, { seed = 5, drop_last = drop_last })
        told("shuffled=", sampler)
        sampler:set_epoch(2)
        told("epoch=", sampler)
      end
    end
  end
end
for _, place in ipairs { { 3, 3 }, { 3, -1 }, { 1, 1 } } do
  local _, why = pcall(data.DistributedSampler, list(4), place[1], place[2])
  print("refused= " .. why.message)
end
for _, make in ipairs { function() return data.RandomSampler(list(0)) end,
  function() return data.RandomSampler(list(3), { num_samples = 0 }) end,
  function() return data.BatchSampler({ 0, 1, 2 }, 0, false) end } do
  local _, why = pcall(make)
  print("refused= " .. why.message)
end
