-- Modules made from the text that PyTorch prints of them: read(text, attrs) answers the module, or raises an error.
-- A text is CLASS(arguments (name): CLASS(...) ...), its white space of any kind; a constructor's call, such as LSTM(3,2),
-- is one, too. `attrs` says what is not printed: {num_heads = 2} of every module that has such an option, or
-- {["layers.0"] = {nhead = 2}} of the one of that name. What was made must print as the text does.
local rs = require "ringside"
local nn = rs.nn

-- Options that a class does not print.
local UNPRINTED = {
  MultiheadAttention = "num_heads dropout add_bias_kv add_zero_attn kdim vdim batch_first",
  TransformerEncoderLayer = "nhead activation batch_first norm_first",
  TransformerDecoderLayer = "nhead activation batch_first norm_first",
  Transformer = "nhead activation batch_first norm_first",
  RNN = "nonlinearity", AvgPool1d = "ceil_mode count_include_pad", AvgPool2d = "ceil_mode count_include_pad",
}

-- ---- the text as a tree: {class, args, children = {{name, node}}}, args and nodes as texts ----

local CHILD = "^%(([%w_][%w_%-]*)%): *"

local function fail(text, at, wanted)
  error(string.format("'%s': %s expected at '%s'", text, wanted, text:sub(at, at + 20)), 0)
end

-- An argument ends at its comma, at the parenthesis around it, or where a child begins.
local function read_argument(text, at)
  local depth, from, quote = 0, at, nil
  while at <= #text do
    local c = text:sub(at, at)
    if quote then
      quote = c ~= quote and quote or nil
    elseif c == "'" or c == '"' then
      quote = c
    elseif depth == 0 and (c == "," or c == ")" or (c == " " and text:find(CHILD, at + 1))) then
      return text:sub(from, at - 1), at + (c == "," and 1 or 0)
    elseif c == "(" or c == "[" then
      depth = depth + 1
    elseif c == ")" or c == "]" then
      depth = depth - 1
    end
    at = at + 1
  end
  fail(text, from, "the end of an argument")
end

local read_node

-- (name): NODE, (name): None, or (0-3): 4 x NODE, which is four of them.
local function read_child(text, at, children)
  local name = text:match(CHILD, at)
  at = select(2, text:find(CHILD, at)) + 1
  if text:find("^None[ )]", at) then
    children[#children + 1] = { name }
    return at + 4
  end
  local count = text:match("^(%d+) x ", at)
  local first, last = name:match("^(%d+)%-(%d+)$")
  if not count then first, last = nil, nil else at = select(2, text:find("^%d+ x ", at)) + 1 end
  if count and (not first or last - first + 1 ~= tonumber(count)) then fail(text, at, "as many names as modules") end
  local node, after = read_node(text, at)
  for i = first or 1, last or 1 do children[#children + 1] = { first and string.format("%d", i) or name, node } end
  return after
end

function read_node(text, at)
  local class = text:match("^([%a_][%w_]*)%(", at)
  if not class then fail(text, at, "CLASS(") end
  local node = { class = class, args = {}, children = {} }
  at = at + #class + 1
  while true do
    at = text:find("[^ ]", at) or #text + 1
    if text:sub(at, at) == ")" then return node, at + 1 end
    if at > #text then fail(text, at, "')'") end
    if text:find(CHILD, at) then
      at = read_child(text, at, node.children)
    else
      node.args[#node.args + 1], at = read_argument(text, at)
    end
  end
end

local function parse(text)
  local plain = text:gsub("%s+", " "):gsub("^ ", ""):gsub(" $", "")
  local node, after = read_node(plain, 1)
  if after <= #plain then fail(plain, after, "nothing more") end
  return node
end

-- ---- arguments ----

local WORDS = { True = true, False = false, None = rs.none }

-- Python's text of a value; (3,) is 3; a word without quotes is a text, too: padding=same.
local function value_of(text)
  text = text:match("^%s*(.-)%s*$")
  if WORDS[text] ~= nil then return WORDS[text] end
  local number = text:match("^[%-%d]") and tonumber(text)
  if number then return number end
  local inside = text:match("^%((.*)%)$") or text:match("^%[(.*)%]$")
  if inside then
    local list = {}
    for item in (inside .. ","):gmatch("%s*([^,]+),") do list[#list + 1] = value_of(item) end
    return #list == 1 and list[1] or list
  end
  local word = text:match("^'([^']*)'$") or text:match('^"([^"]*)"$') or text:match("^torch%.(%w+)$") or
    text:match("^[%a_]+$")
  if not word then error("the argument '" .. text .. "' is not understood", 0) end
  return word
end

-- Those by place, and those by name.
local function arguments(node)
  local places, names = {}, {}
  for _, text in ipairs(node.args) do
    local name, value = text:match("^%s*([%a_][%w_]*)=(.*)$")
    if name then names[name] = value_of(value)
    elseif next(names) then error("an argument without a name behind one with: '" .. text .. "'", 0)
    else places[#places + 1] = value_of(text) end
  end
  return places, names
end

-- ---- modules ----

local make

local function child_of(node, name)
  for _, child in ipairs(node.children) do
    if child[1] == name and child[2] then return child[2] end
  end
  error(node.class .. " without '" .. name .. "' is not understood", 0)
end

local function named_arguments(node) return select(2, arguments(node)) end

local function with(options, more)
  for name, value in pairs(more) do options[name] = value end
  return options
end

-- What attrs says of the module at this path; which of attrs were read is noted in `taken`.
local function unprinted(class, path, attrs, taken)
  local options, takes = {}, {}
  for name in (UNPRINTED[class] or ""):gmatch("%S+") do takes[name] = true end
  for name, value in pairs(attrs) do
    if takes[name] and type(value) ~= "table" then options[name], taken[name] = value, true end
  end
  for name, value in pairs(type(attrs[path]) == "table" and attrs[path] or {}) do
    if not takes[name] then error(string.format("the attribute '%s' of %s is not understood", name, class), 0) end
    options[name], taken[path] = value, true
  end
  return options
end

local function wanted(options, name, class)
  local value = options[name]
  if value == nil then error(string.format("%s does not print its %s: the attributes must say it", class, name), 0) end
  options[name] = nil
  return value
end

local MAKERS = {}

function MAKERS.MultiheadAttention(node, options)
  local out = named_arguments(child_of(node, "out_proj"))
  local heads = wanted(options, "num_heads", node.class)
  return nn.MultiheadAttention(out.in_features, heads, with({ bias = out.bias }, options))
end

-- The arguments that a layer's children print: d_model, and the options.
local function layer_options(node)
  local first, norm = named_arguments(child_of(node, "linear1")), named_arguments(child_of(node, "norm1"))
  return first.in_features, { dim_feedforward = first.out_features, layer_norm_eps = norm.eps,
    dropout = named_arguments(child_of(node, "dropout")).p }
end

local function transformer_layer(node, options)
  local width, own = layer_options(node)
  local heads = wanted(options, "nhead", node.class)
  return nn[node.class](width, heads, with(own, options))
end
MAKERS.TransformerEncoderLayer, MAKERS.TransformerDecoderLayer = transformer_layer, transformer_layer

local function transformer_stack(node, _, path, read)
  local layers, norm = child_of(node, "layers"), nil
  if #layers.children == 0 then error(node.class .. " without layers is not understood", 0) end
  for _, child in ipairs(node.children) do
    if child[1] == "norm" and child[2] then norm = make(child[2], path .. "norm", read) end
  end
  local layer = make(layers.children[1][2], path .. "layers.0", read)
  return nn[node.class](layer, #layers.children, { norm = norm })
end
MAKERS.TransformerEncoder, MAKERS.TransformerDecoder = transformer_stack, transformer_stack

function MAKERS.Transformer(node, options)
  local encoder = child_of(child_of(node, "encoder"), "layers").children
  local decoder = child_of(child_of(node, "decoder"), "layers").children
  local width, own = layer_options(encoder[1][2])
  local heads = wanted(options, "nhead", node.class)
  own.num_encoder_layers, own.num_decoder_layers = #encoder, #decoder
  return nn.Transformer(width, heads, with(own, options))
end

-- A class of the file's own: its input goes through its children as they were printed; of several results the first goes
-- on, and attention is attention to itself.
local function through(self, x)
  for i, name in ipairs(self.order) do
    local child = self[name]
    if self.classes[i] == "MultiheadAttention" then x = child(x, x, x) else x = child(x) end
  end
  return x
end

local function add_children(module, node, path, read)
  for _, child in ipairs(node.children) do
    module:add_module(child[1], child[2] and make(child[2], path .. child[1], read) or nil)
  end
  return module
end

local function own_class(node, path, read)
  local Class = nn.Module(node.class)
  function Class:init() self.order, self.classes = {}, {} end
  Class.forward = through
  local module = add_children(Class(), node, path, read)
  for i, child in ipairs(node.children) do
    if not child[2] then error("a child that is None in '" .. node.class .. "' is not understood", 0) end
    module.order[i], module.classes[i] = child[1], child[2].class
  end
  return module
end

local CONTAINERS = { Sequential = true, ModuleList = true, ModuleDict = true }

local function known_class(class) return (pcall(function() return assert(nn[class]) end)) end

function make(node, name, read)
  local class, path = node.class, name == "" and "" or name .. "."
  local options = unprinted(class, name, read.attrs, read.taken)
  if CONTAINERS[class] and #node.args == 0 then return add_children(nn[class](), node, path, read) end
  if MAKERS[class] and #node.children > 0 then return MAKERS[class](node, options, path, read) end
  if not known_class(class) and #node.args == 0 and #node.children > 0 then return own_class(node, path, read) end
  if not known_class(class) or #node.children > 0 then error("the class '" .. class .. "' is not understood", 0) end
  local places, names = arguments(node)
  names = with(names, options)
  if next(names) then places[#places + 1] = names end
  return nn[class](table.unpack(places))
end

-- Without white space; 2, 2.0, (2,) and (2, 2) are one, for PyTorch prints what it was given.
local function bare(text)
  local numbers = text:gsub("%s+", ""):gsub("%f[%d%-%w_.]%-?%d+%.?%d*e?%-?%d*%f[^%d]", function(digits)
    local number = tonumber(digits)
    return number and string.format("%.15g", number)
  end)
  return (numbers:gsub("%((%-?[%w.]+),%1%)", "%1"):gsub("%((%-?[%w.]+),%)", "%1"))
end

-- In a constructor's call arguments are given by place that are printed by name, or in the place of what is printed below.
local function is_call(node)
  return #node.children == 0 and (#arguments(node) > 0 or MAKERS[node.class] ~= nil)
end

return function(text, attrs)
  local node = parse(text)
  local read = { attrs = attrs or {}, taken = {} }
  local module = make(node, "", read)
  for name in pairs(read.attrs) do
    if not read.taken[name] then error("the attribute '" .. name .. "' of the model is not understood", 0) end
  end
  if bare(tostring(module)) ~= bare(text) and not is_call(node) then
    error("the model '" .. text .. "' was read as '" .. tostring(module):gsub("%s+", " ") .. "'", 0)
  end
  return module
end
