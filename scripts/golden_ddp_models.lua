-- The models of the DDP files, as their headers describe them, and the texts that name one: built on a rank.
local rs = require "ringside"
local nn = rs.nn
local F = nn.functional

return function(tools)
  -- ---- kinds: f(arguments ...) answers a module ----

  -- Answers the builders by kind. Called on a rank, so that classes need not travel. A line for each part: of several that
  -- are assigned at once, Lua takes the last one first, and parameters are listed in the order of assignment.
  local function kinds()
    local KINDS = {}

    local Two = nn.Module "Two"
    function Two:init(a, b, c, activation)
      self.fc1 = nn.Linear(a, b)
      self.fc2 = nn.Linear(b, c)
      self.activation = activation
    end
    function Two:forward(x) return self.fc2(self.activation(self.fc1(x))) end

    local Deep = nn.Module "Deep"
    function Deep:init(widths)
      local layers = {}
      for i = 1, #widths - 1 do layers[i] = nn.Linear(widths[i], widths[i + 1]) end
      self.layers, self.depth = nn.ModuleList(layers), #layers
    end
    function Deep:forward(x)
      for i = 0, self.depth - 1 do
        x = self.layers[i](x)
        if i < self.depth - 1 then x = F.relu(x) end
      end
      return x
    end

    local Emb = nn.Module "Emb"
    function Emb:init(rows, width, out, sparse)
      self.emb = nn.Embedding(rows, width, { sparse = sparse })
      self.fc = nn.Linear(width, out)
    end
    function Emb:forward(tokens) return self.fc(self.emb(tokens):mean(1)) end

    local Conv = nn.Module "Conv"
    function Conv:init(ci, co, hw, k, c)
      self.conv = nn.Conv2d(ci, co, k)
      self.bn = nn.BatchNorm2d(co)
      self.fc = nn.Linear(co * (hw - k + 1) * (hw - k + 1), c)
    end
    function Conv:forward(x) return self.fc(F.relu(self.bn(self.conv(x))):flatten(1)) end

    local Shared = nn.Module "Shared"
    function Shared:init(d)
      self.a = nn.Linear(d, d)
      self.b = nn.Linear(d, d)
      self.c = nn.Linear(d, d)
      self.c.weight = self.a.weight
    end
    function Shared:forward(x)
      local h = self.b(self.a(x):tanh()):tanh()
      return self.c(self.b(h):tanh())
    end

    local Branch = nn.Module "Branch"
    function Branch:init(d, n)
      local branches = {}
      for i = 1, n do branches[i] = nn.Linear(d, d) end
      self.stem = nn.Linear(d, d)
      self.br = nn.ModuleList(branches)
    end
    function Branch:forward(x, used)
      local h = F.relu(self.stem(x))
      local y = h
      for _, i in ipairs(used) do y = y + self.br[i](h) end
      return y
    end

    -- Parameters p0, p1 ... of these sizes and dtypes.
    local function add_vectors(module, sizes, dtypes)
      for i, size in ipairs(sizes) do
        module["p" .. i - 1] = nn.Parameter(rs.randn({ size }):to(dtypes and dtypes[i] or "float32"))
      end
    end

    local Order = nn.Module "Order"
    function Order:init(sizes, order)
      add_vectors(self, sizes)
      self.order = order
    end
    function Order:forward(x)
      local y = x:sum()
      for _, i in ipairs(self.order) do y = y + self["p" .. i]:pow(2):sum() * y end
      return y
    end

    local Mixed = nn.Module "Mixed"
    function Mixed:init(sizes, dtypes)
      add_vectors(self, sizes, dtypes)
      self.count = #sizes
    end
    function Mixed:forward(x)
      local y = x:to("float64"):sum()
      for i = 0, self.count - 1 do y = y / 2 + self["p" .. i]:pow(2):sum():to("float64") end
      return y
    end

    local Vec = nn.Module "Vec"
    function Vec:init(n) self.p = nn.Parameter(rs.zeros { n }) end
    function Vec:forward(x) return (self.p * x):sum() end

    KINDS.Linear = nn.Linear
    function KINDS.MLP(a, b, c) return Two(a, b, c, F.relu) end
    function KINDS.MLPN(a, b, c) return Two(a, b, c, rs.tanh) end
    KINDS.Deep, KINDS.Emb, KINDS.Conv, KINDS.Shared, KINDS.Branch = Deep, Emb, Conv, Shared, Branch
    KINDS.Order, KINDS.Mixed, KINDS.Vec = Order, Mixed, Vec
    return KINDS
  end

  -- {kind, arguments ...}.
  function tools.ddp_model(spec)
    local kind = kinds()[spec[1]]
    if not kind then error("the model '" .. tostring(spec[1]) .. "' is not understood", 0) end
    return kind(table.unpack(spec, 2))
  end

  -- ---- texts: "Order 10 20 30, used 2 0 1 rotated by the rank, x [1]" ----

  local function integers(text)
    local list = {}
    for word in text:gmatch "[^%s,]+" do
      list[#list + 1] = math.tointeger(word) or error("'" .. word .. "' in '" .. text .. "' is not understood", 0)
    end
    return list
  end

  local function pairs_of(text)
    local sizes, dtypes = {}, {}
    local rest = text:gsub("%((%d+) (%w+)%)", function(size, dtype)
      sizes[#sizes + 1], dtypes[#dtypes + 1] = math.tointeger(size), tools.DTYPES[dtype]
      return ""
    end)
    if rest:find "%S" then error("'" .. text .. "' is not understood", 0) end
    return sizes, dtypes
  end

  -- Answers {spec, x = shape, tokens = whether x holds token numbers, rotated}.
  function tools.ddp_built(text)
    local built = {}
    local rest = text:gsub(", x %[([%d, ]*)%]$", function(shape) built.x = integers(shape) return "" end)
    rest = rest:gsub("; x int64 token numbers$", function() built.tokens = true return "" end)
    local used
    rest = rest:gsub(", used ([%a ]*)([%d ]+)([%a ]*)$", function(how, order, turned)
      built.rotated = turned == "rotated by the rank"
      if (how ~= "" and how ~= "in the order ") or (turned ~= "" and not built.rotated) then return nil end
      used = integers(order)
      return ""
    end)
    local kind, arguments = rest:match "^(%a+) (.*)$"
    if not kind or (not built.x and not built.tokens) then error("the model '" .. text .. "' is not understood", 0) end
    if kind == "Order" then
      if not used then error("the order of '" .. text .. "' is not understood", 0) end
      built.spec = { kind, integers(arguments), used }
    elseif kind == "Mixed" then
      built.spec = { kind, pairs_of(arguments) }
    elseif kind == "Deep" then
      built.spec = { kind, integers(arguments) }
    else
      local numbers, sparse = arguments:gsub(" sparse$", "")
      built.spec = { kind, table.unpack(integers(numbers)) }
      if kind == "Emb" then built.spec[5] = sparse == 1 end
    end
    return built
  end
end
