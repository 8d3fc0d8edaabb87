-- Workers that load: with indices, of a stream, that stay, that are left in the middle, that fail.
local rs = require "ringside"
local data = rs.utils.data
rs.lesson { title = "Workers where memory is short", devices = 0, seed = 1 }

local Squares = data.Dataset("Squares")
function Squares:len() return 7 end
function Squares:getitem(i)
  if i == self.bad then rs.error("ValueError", "no such sample") end
  return { rs.tensor { i, i * i }, i }
end
local Stream = data.IterableDataset("Stream")
function Stream:iter()
  local i = data.get_worker_info().id
  return function() i = i + 2; return i < 9 and i or nil end
end

local sum = 0
local function add(loader)
  for x in loader do sum = sum + x:sum():item() end
end
add(data.DataLoader(Squares(), { batch_size = 2, num_workers = 2, shuffle = true, worker_init_fn = function() end }))
rs.check("all samples came", sum == 112)
local stays = data.DataLoader(Stream(), { batch_size = 2, num_workers = 2, persistent_workers = true })
sum = 0
add(stays)
add(stays)
rs.check("a stream came twice", sum == 2 * (2 + 4 + 6 + 8 + 3 + 5 + 7))
for _ in data.DataLoader(Squares(), { num_workers = 2 }):iter() do break end
for _ in data.DataLoader(Squares(), { num_workers = 1 }) do break end
local broken = Squares()
broken.bad = 3
local ok, why = pcall(add, data.DataLoader(broken, { num_workers = 2 }))
if not ok and why.kind ~= "ValueError" then error(why) end
rs.check("a worker's error arrives", not ok)
