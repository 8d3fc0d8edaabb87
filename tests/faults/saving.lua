-- A whole state of a training goes into a file and out again, over one that is there. Whoever runs this under a failing
-- allocator must fail or be right, and the file is the old one or the new one, whole.
local rs = require "ringside"
local nn, optim, data = rs.nn, rs.optim, rs.utils.data

rs.lesson { title = "Saving", devices = 2 }
if arg[1] == "nothing" then return end -- so that a test knows what was allocated before

local net = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.BatchNorm1d(4), nn.Linear(4, 1)):to("device:1")
local opt = optim.Adam(net:parameters(), { lr = 0.1 })
local schedule = optim.lr_scheduler.StepLR(opt, 1, 0.5)
local loader = data.DataLoader(data.TensorDataset(rs.randn(8, 3)), { batch_size = 4, shuffle = true })
local path = os.tmpname()
local function state(step)
  local base = rs.arange(6.0)
  return { step = step, model = net:state_dict(), opt = opt:state_dict(), schedule = schedule:state_dict(),
    loader = loader:state_dict(), rng = rs.get_rng_state(), shared = { base, base[{ rs.slice(1, 3) }], base:view(2, 3):t() },
    list = { 1, "two", 3.5, { true } }, [0] = rs.none }
end
local function again(path, map) return rs.load(path, { map_location = map }) end
local function passed(ok, err)
  if not ok and err.kind ~= "MemoryError" then error(err) end
  return ok
end

local written = false
for x in loader do
  net(x:to("device:1")):sum():backward()
  opt:step()
  schedule:step()
  rs.save(state(1), path)
  written = passed(pcall(rs.save, state(2), path))
  break
end
local back = again(path, function(_, place) return place == "device:1" and "device:0" or nil end)
rs.check("the file is the old one or the new one", back.step == (written and 2 or 1))
rs.check("whole", back.rng == rs.get_rng_state() and back.list[4][1] and back[0] == rs.none)
rs.check("the weights are those", rs.equal(back.model["0.weight"]:cpu(), net[0].weight:cpu()) and back.model["0.weight"].device == "device:0")
rs.check("shared elements are", back.shared[1]:storage_id() == back.shared[3]:storage_id())
net:load_state_dict(back.model)
opt:load_state_dict(back.opt)
schedule:load_state_dict(back.schedule)
loader:load_state_dict(back.loader)
local refused, err = pcall(rs.save, { state = { hook = print } }, path)
if not refused and err.kind == "MemoryError" then error(err) end
rs.check("what no file keeps is refused", not refused and err.kind == "TypeError")
os.remove(path)
