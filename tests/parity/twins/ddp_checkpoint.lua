-- Checkpointed layers in DDP, world 2: values, silence and kinds of errors of each way under each option.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed
rs.lesson { title = "checkpointed layers in DDP", devices = 0 }

local Net = nn.Module("Net")
local function one()
  local layer = nn.Linear(1, 1, { bias = false })
  nn.init.constant_(layer.weight, 2)
  return layer
end
-- One layer, used once or twice, alone, below a head or above a stem.
function Net:init(reentrant, uses, place)
  self.a, self.reentrant, self.uses = one(), reentrant, uses
  if place == "stem" then self.stem = one() end
  if place == "head" then self.head = one() end
end
function Net:forward(x)
  if self.stem then x = self.stem(x) end
  for _ = 1, self.uses do
    if self.reentrant == nil then
      x = self.a(x)
    else
      x = rs.utils.checkpoint.checkpoint(self.a, x, { use_reentrant = self.reentrant })
    end
  end
  return self.head and self.head(x) or x
end

local function grads(net)
  local by_name, names, all = {}, {}, {}
  for name, p in net:named_parameters() do
    names[#names + 1], by_name[name] = name, ("%g"):format(p.grad:item())
  end
  table.sort(names)
  for i, name in ipairs(names) do all[i] = by_name[name] end
  return table.concat(all, " ")
end

local ways = { { "bare" }, { "reentrant", true }, { "plain", false } }
local function trained(rank, net, options)
  local told = {}
  local ok, err = pcall(function()
    local ddp = nn.parallel.DistributedDataParallel(net, options)
    for _ = 1, 3 do
      ddp:zero_grad()
      ddp(rs.full({ 1, 1 }, 3.0 * rank + 1, { requires_grad = true })):sum():backward()
      told[#told + 1] = grads(net)
    end
  end)
  if not ok then told[#told + 1] = err.kind end
  return table.concat(told, " ")
end

-- Each case in a world of its own: an error ends one.
for uses = 1, 2 do
  for _, place in ipairs { "alone", "head", "stem" } do
    for _, way in ipairs(ways) do
      for _, option in ipairs { "none", "static", "find", "view" } do
        local told = dist.spawn(function(rank)
          local options = {}
          options.static_graph = option == "static" or nil
          options.find_unused_parameters = option == "find" or nil
          options.gradient_as_bucket_view = option == "view" or nil
          return trained(rank, Net(way[2], uses, place), options)
        end, { world = 2 })
        print(("%d_%s_%s_%s %s and %s"):format(uses, place, way[1], option, told[0], told[1]))
      end
    end
  end
end
