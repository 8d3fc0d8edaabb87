-- Streams: what workers read of them, in which order it comes, and what is left when one ends before the others.
local rs = require "ringside"
local data = rs.utils.data
rs.lesson { title = "iterable", devices = 0 }

local Stream = data.IterableDataset("Stream")
function Stream:init(ends, options)
  options = options or {}
  self.ends, self.shared, self.length = ends, options.shared, options.length
end
function Stream:iter()
  local info = data.get_worker_info()
  local worker, workers = info and info.id or 0, info and info.num_workers or 1
  local at, last, step = 100 * worker, 100 * worker + self.ends[worker % #self.ends + 1], 1
  if self.shared then at, last, step = worker, self.ends[1], workers end
  return function()
    if at >= last then return nil end
    at = at + step
    return at - step
  end
end
local Sized = data.IterableDataset("Sized", Stream)
function Sized:len() return self.length end

local function told(name, loader)
  for x in loader do print(name .. " " .. (type(x) == "number" and x or table.concat(x:tolist(), " "))) end
end
for workers = 0, 3 do
  print("twice= " .. workers)
  told("x=", data.DataLoader(Stream { 7 }, { batch_size = 3, num_workers = workers }))
end
for _, workers in ipairs { 0, 2, 3 } do
  print("split= " .. workers)
  told("x=", data.DataLoader(Stream({ 10 }, { shared = true }), { batch_size = 2, num_workers = workers }))
end
for _, ends in ipairs { { 1, 9 }, { 9, 1 }, { 0, 5 }, { 5, 0, 3 }, { 2, 8, 4 }, { 0, 0, 0 } } do
  for _, drop_last in ipairs { false, true } do
    print("uneven= " .. table.concat(ends, " ") .. (drop_last and " True" or " False"))
    told("x=", data.DataLoader(Stream(ends), { batch_size = 2, num_workers = #ends, drop_last = drop_last,
      prefetch_factor = 1 + #ends % 2 }))
  end
end
told("alone=", data.DataLoader(Stream { 3, 1 }, { batch_size = rs.none, num_workers = 2 }))
local stays = data.DataLoader(Stream { 3, 5 }, { batch_size = 2, num_workers = 2, persistent_workers = true })
for _ = 1, 2 do told("persistent=", stays) end
for _, case in ipairs { { 7, 2 }, { 7, 7 }, { 6, 1 } } do
  for _, drop_last in ipairs { false, true } do
    local stream = Sized({ 3 }, { length = case[1] })
    print("length= " .. #data.DataLoader(stream, { batch_size = case[2], drop_last = drop_last }))
  end
end
rs.manual_seed(3)
for _ in data.DataLoader(Stream { 3 }, { batch_size = 2 }) do end
print("after " .. ("%.7g"):format(rs.rand(1):item()))
for _, options in ipairs { { shuffle = true }, { sampler = { 1 } }, { batch_sampler = { { 1 } } }, { shuffle = false } } do
  local ok, why = pcall(data.DataLoader, Stream { 3 }, options)
  print(ok and "taken=" or "refused= " .. why.kind)
end
