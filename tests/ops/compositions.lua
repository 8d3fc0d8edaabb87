-- Functions made of other ops, against PyTorch's: values, dtypes, shapes and gradients. compositions.json: each case is a
-- line of Lua over tensors named by a letter; its numbers are those of the PyTorch that it names.
local rs = require "ringside"
rs.lesson { title = "Compositions", devices = 1, prefix = "" }

local DTYPES = { f32 = "float32", f64 = "float64", i64 = "int64", bool = "bool" }
local WORDS = { nan = 0 / 0, inf = math.huge, ["-inf"] = -math.huge }
local golden = rs.json_load("tests/ops/compositions.json")

local function tensor(given)
  local data = {}
  for i, x in ipairs(given.data) do data[i] = WORDS[x] or x end
  return rs.tensor(data, { dtype = DTYPES[given.dtype] }):reshape(given.shape)
end

local function difference(got, wanted)
  if not rs.is_tensor(got) then return "is no tensor but " .. tostring(got) end
  if got.dtype ~= wanted.dtype then return "is " .. got.dtype .. ", not " .. wanted.dtype end
  if tostring(got.shape) ~= tostring(wanted.shape) then return "has shape " .. tostring(got.shape) .. ", not " .. tostring(wanted.shape) end
  local exact = got.dtype == "int64" or got.dtype == "bool"
  local close = exact and rs.equal(got, wanted) or not exact and got:allclose(wanted, { rtol = 1e-4, atol = 1e-5, equal_nan = true })
  return not close and "is " .. tostring(got) .. ", not " .. tostring(wanted) or nil
end

local function run(case)
  local scope = setmetatable({ rs = rs }, { __index = _G })
  for name, given in pairs(case.inputs) do
    local input = tensor(given)
    scope[name] = case.grads and case.grads[name] and input:requires_grad_() or input
  end
  local outputs = { assert(load("return " .. case.code, case.code, "t", scope))() }
  if type(outputs[1]) == "table" then outputs = outputs[1] end
  for i, wanted in ipairs(case.outputs) do
    local wrong = difference(outputs[i], tensor(wanted))
    if wrong then return "result " .. i .. " " .. wrong end
  end
  local at = 1
  for i, output in ipairs(outputs) do
    if case.grad_out and output.requires_grad and case.grad_out[at] then
      output:backward(tensor(case.grad_out[at]), { retain_graph = true })
      at = at + 1
    end
  end
  for name, wanted in pairs(case.grads or {}) do
    local wrong = difference(scope[name].grad, tensor(wanted))
    if wrong then return "gradient of " .. name .. " " .. wrong end
  end
end

for _, case in ipairs(golden.cases) do
  local ok, wrong = pcall(run, case)
  rs.check(case.name .. " is PyTorch's", ok and wrong == nil)
  if wrong then print("# " .. tostring(wrong):gsub("\n", "\n# ")) end
end
