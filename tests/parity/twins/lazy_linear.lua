-- nn.LazyLinear: what an uninitialized parameter allows, what the first forward makes of it, loading, training.
local rs = require "ringside"
local nn = rs.nn
rs.lesson { title = "lazy layers", devices = 0 }

local function words(value)
  if rs.is_tensor(value) and tostring(value) ~= "<UninitializedParameter>" then value = value:tolist() end
  if type(value) == "table" then
    local all = {}
    for i = 1, value.n or #value do all[i] = words(value[i]) end
    return table.concat(all, " ")
  end
  return math.type(value) == "float" and ("%.6f"):format(value) or (tostring(value):gsub("\n", " "))
end
local function list(...) return table.pack(...) end
local function case(name, f)
  local ok, told = pcall(f)
  print(name, ok and words(told) or told.kind)
end

local x = rs.ones(2, 4)
local lazy = nn.LazyLinear(3)
case("repr", function() return lazy end)
case("weight", function() return { lazy.weight, lazy.bias } end)
case("flags", function() return list(lazy.weight.requires_grad, lazy.weight.is_leaf, lazy.weight.grad, lazy.in_features) end)
case("has", function() return lazy:has_uninitialized_params() end)
case("names", function()
  local names = {}
  for name in lazy:named_parameters() do names[#names + 1] = name end
  return names
end)
case("size", function() return lazy.weight:size() end)
case("shape", function() return lazy.weight.shape end)
case("numel", function() return lazy.weight:numel() end)
case("plus", function() return lazy.weight + 1 end)
case("times", function() return rs.ones(2) * lazy.weight end)
case("sum", function() return lazy.weight:sum() end)
case("item", function() return lazy.weight:item() end)
case("detach", function() return lazy.weight:detach() end)
case("index", function() return lazy.weight[0] end)
case("hook", function() return lazy.weight:register_hook(function(g) return g end) end)
case("backward", function() return lazy.weight:backward() end)
case("init", function() return nn.init.constant_(lazy.weight, 1) end)
case("freeze", function() return lazy:requires_grad_(false) end)
case("clip", function() return nn.utils.clip_grad_norm_(lazy:parameters(), 1.0) end)
case("no_dims", function() return lazy(rs.tensor(1.0)) end)
case("double", function()
  lazy:double()
  local dtype = lazy.weight.dtype
  return { dtype == "float64", lazy:float() }
end)
rs.manual_seed(5)
local weight = lazy.weight
case("forward", function() return lazy(x) end)
case("becomes", function() return { lazy, lazy.in_features, lazy.weight == weight } end)
case("other_width", function() return lazy(rs.ones(2, 5)) end)
case("no_bias", function() return list(nn.LazyLinear(3, { bias = false }), nn.LazyLinear(3, { bias = false }).bias) end)
local full, into = nn.Linear(4, 3), nn.LazyLinear(3)
into:load_state_dict(full:state_dict())
case("loaded", function() return { into, into:has_uninitialized_params(), into.weight.shape } end)
case("loaded_forward", function() return { rs.equal(into(x), full(x)), into } end)
into = nn.LazyLinear(3)
into:load_state_dict(full:state_dict())
case("loaded_other", function() return into(rs.ones(2, 5)) end)
case("empty", function() return nn.LazyLinear(0)(x).shape end)
into = nn.LazyLinear(3)
into:load_state_dict(nn.LazyLinear(3):state_dict())
case("loaded_lazy", function() return into:has_uninitialized_params() end)
case("into_full", function() return full:load_state_dict(nn.LazyLinear(3):state_dict()) end)
case("missing", function() return into:load_state_dict { weight = rs.ones(3, 4) } end)
case("half", function() return { into.weight.shape, into.bias } end)
local net = nn.Sequential(nn.LazyLinear(3), nn.ReLU(), nn.LazyLinear(2, { bias = false }))
case("net", function() return net end)
case("net_keys", function() return net:state_names() end)
case("net_forward", function() return net(rs.ones(2, 5, 4)).shape end)
case("net_after", function() return net end)
local own = nn.UninitializedParameter()
case("own", function() return { own, own.requires_grad } end)
own:materialize { 2, 3 }
case("own_after", function() return { own.shape, own.requires_grad } end)
lazy = nn.LazyLinear(3)
local optimizer = rs.optim.SGD(lazy:parameters(), { lr = 0.1 })
optimizer:step()
lazy(x):sum():backward()
local before = lazy.bias:detach():clone()
optimizer:step()
case("trained", function() return lazy.bias:detach() - before end)
