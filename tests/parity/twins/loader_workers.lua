-- Workers that load ahead: who loads what, with which seed, what they draw and what they keep.
local rs = require "ringside"
local data = rs.utils.data
rs.lesson { title = "loader_workers", devices = 0 }

local Squares = data.Dataset("Squares")
function Squares:init(n) self.n, self.read, self.offset = n, 0, 0 end
function Squares:len() return self.n end
function Squares:getitem(i)
  local info = data.get_worker_info()
  self.read = self.read + 1
  if i == 23 then rs.error("ValueError", "no sample 23") end
  return { rs.tensor(i * i + self.offset), self.read, info and info.id or -1, info and info.seed or -1, rs.rand(1):item() }
end

local function init(worker)
  local info = data.get_worker_info()
  info.dataset.offset = 100 * worker + info.num_workers
end
local function row(t) return table.concat(t:tolist(), " ") end
local function number(x) return ("%.7g"):format(x) end
local function told(name, batches)
  for x, read, worker, seed, drawn in batches do
    print(name .. " " .. row(x) .. " read " .. row(read) .. " worker " .. row(worker) .. " seed " .. row(seed))
    local texts = {}
    for i, v in ipairs(drawn:tolist()) do texts[i] = number(v) end
    print("drawn " .. table.concat(texts, " "))
  end
end
local function after(...) print(table.concat({ "after", ... }, " ")) end

print("here " .. (data.get_worker_info() == nil and "None" or "?"))
local set = Squares(11)
for workers = 0, 3 do
  rs.manual_seed(5)
  told("in_order=", data.DataLoader(set, { batch_size = 2, num_workers = workers }))
  after(set.read, number(rs.rand(1):item()))
end
rs.manual_seed(6)
told("init=", data.DataLoader(Squares(7), { batch_size = 3, num_workers = 2, worker_init_fn = init, prefetch_factor = 1 }))
after(number(rs.rand(1):item()))
rs.manual_seed(7)
told("shuffled=", data.DataLoader(Squares(9), { batch_size = 2, shuffle = true, num_workers = 2, drop_last = true }))
after(number(rs.rand(1):item()))
rs.manual_seed(8)
local g = rs.Generator():manual_seed(9)
told("generator=", data.DataLoader(Squares(9), { batch_size = 2, shuffle = true, num_workers = 2, generator = g }))
after(number(rs.rand(1):item()), number(rs.rand({ 1 }, { generator = g }):item()))
rs.manual_seed(10)
local stays = data.DataLoader(Squares(6), { batch_size = 2, num_workers = 2, shuffle = true, persistent_workers = true })
for _ = 1, 3 do told("persistent=", stays) end
after(number(rs.rand(1):item()))
rs.manual_seed(11)
for x in data.DataLoader(Squares(4), { batch_size = rs.none, num_workers = 2 }) do print("alone= " .. x:item()) end
local lists = { { 4, 0 }, { 1 }, { 3, 2, 0 } }
local options = { batch_sampler = lists, num_workers = 2, collate_fn = function(list) return #list end }
for x in data.DataLoader(Squares(5), options) do print("lists= " .. x) end
after(number(rs.rand(1):item()))
local seen = {}
local _, why = pcall(function()
  for x in data.DataLoader(Squares(30), { batch_size = 4, num_workers = 3 }) do seen[#seen + 1] = x[0]:item() end
end)
print("raised= " .. table.concat(seen, " ") .. " " .. why.kind .. " " .. why.message:match("[^\n]*"))
_, why = pcall(function()
  local broken = function() rs.error("KeyError", "lost") end
  for _ in data.DataLoader(Squares(4), { num_workers = 1, worker_init_fn = broken }) do print("never=") end
end)
print("raised= " .. why.kind .. " " .. why.message:match("[^\n]*"))
for _, wrong in ipairs { { num_workers = -1 }, { timeout = -1 }, { prefetch_factor = 2 }, { persistent_workers = true },
  { num_workers = 1, prefetch_factor = -1 }, { batch_size = 0 }, { shuffle = true, sampler = { 1 } },
  { batch_sampler = { { 1 } }, drop_last = true }, { batch_size = rs.none, drop_last = true } } do
  _, why = pcall(data.DataLoader, set, wrong)
  print("refused= " .. why.kind)
end
