-- SGD, Adagrad and SparseAdam on gradients of which only some rows are there, to the bit.
local rs = require "ringside"
local nn, O = rs.nn, rs.optim
rs.lesson { title = "sparse optimizers", devices = 0 }
local cases = {
  { "sgd", "SGD", { lr = 0.1 } },
  { "maximize", "SGD", { lr = 0.3, maximize = true } },
  { "momentum", "SGD", { lr = 0.1, momentum = 0.9 } },
  { "dampening", "SGD", { lr = 0.1, momentum = 0.9, dampening = 0.3 } },
  { "nesterov", "SGD", { lr = 0.1, momentum = 0.9, nesterov = true } },
  { "adagrad", "Adagrad" },
  { "adagrad_decay", "Adagrad", { lr = 0.3, lr_decay = 0.1, initial_accumulator_value = 0.5, eps = 1e-4 } },
  { "adagrad_maximize", "Adagrad", { lr = 0.3, maximize = true } },
  { "sparse_adam", "SparseAdam" },
  { "sparse_adam_options", "SparseAdam", { lr = 0.02, betas = { 0.7, 0.95 }, eps = 1e-6, maximize = true } },
}
local looked = { { 2, 0, 2, 5 }, { 1, 3 }, { 3, 5, 3, 0 }, { 4 }, {}, { 2, 4, 1, 2 } }
local function table_of(dtype)
  local rows = {}
  for i = 0, 6 do
    rows[i + 1] = {}
    for j = 0, 4 do rows[i + 1][j + 1] = ((i * 37 + j * 11) % 23 - 11) / 7 end
  end
  return nn.Parameter(rs.tensor(rows, { dtype = dtype }))
end
local function python(flag) return flag and "True" or "False" end
local function words(name, list, format)
  local out = { name }
  for _, value in ipairs(list) do out[#out + 1] = format:format(value) end
  print(table.concat(out, " "))
end
-- MKL's square root of floats is not always the nearest, so what went through one agrees within rounding.
local function show(name, t)
  local rounds = name:find "ada" or name:find "dense"
  words(name .. (rounds and "" or "="), t:detach():reshape(-1):tolist(), "%.17g")
end

for _, dtype in ipairs { "float32", "float64" } do
  for _, case in ipairs(cases) do
    local label = case[1] .. "." .. dtype:sub(-2)
    local w, still = table_of(dtype), table_of(dtype)
    local opt = O[case[2]]({ w, still }, case[3])
    for step, ids in ipairs(looked) do
      opt:zero_grad()
      local out = nn.functional.embedding(rs.tensor(ids, { dtype = "int64" }), w, { sparse = true })
      local scale = rs.tensor({ 0.3, -1.1, 0.7, 2.0, -0.9 }, { dtype = dtype })
      local loss = (out * out * scale):sum()
      loss:backward()
      opt:step()
      show(("%s.%d"):format(label, step - 1), w)
    end
    print(label .. ".still= " .. python(rs.equal(still, table_of(dtype))))
    local state, keys = opt:state_dict().state, { label .. ".states=" }
    for i = 0, 1 do keys[#keys + 1] = state[i] and i end
    print(table.concat(keys, " "))
    for _, key in ipairs { "momentum_buffer", "exp_avg", "exp_avg_sq", "sum" } do
      local t = state[0] and state[0][key]
      if t and t.is_sparse then
        words(label .. ".rows=", t:_indices():reshape(-1):tolist(), "%d")
        t = t:_values()
      end
      if t then show(label .. "." .. key, t) end
    end
    local step = state[0] and state[0].step
    if step then
      local tensor = rs.is_tensor(step)
      print(("%s.step= %d %s"):format(label, tensor and step:item() or step, python(tensor)))
    end
  end
end

for _, dtype in ipairs { "float32", "float64" } do
  for _, case in ipairs { { "dense" }, { "dense_decay", { lr = 0.2, lr_decay = 0.5, weight_decay = 0.1 } },
    { "dense_other", { lr = 0.2, initial_accumulator_value = 0.25, eps = 1e-3, maximize = true } } } do
    local label, w = case[1] .. "." .. dtype:sub(-2), table_of(dtype)
    local opt = O.Adagrad({ w }, case[2])
    for step = 0, 4 do
      opt:zero_grad()
      local loss = (w * w * w):sum()
      loss:backward()
      opt:step()
      show(("%s.%d"):format(label, step), w)
    end
    show(label .. ".sum", opt:state_dict().state[0].sum)
  end
end

local function rows_of(w) return nn.functional.embedding(rs.tensor { 1, 1 }, w, { sparse = true }) end
do
  local w = table_of "float32"
  local opt = O.SGD({ w }, { lr = 0.1, momentum = 0.9 })
  local loss = (w * w):sum()
  loss:backward()
  opt:step()
  opt:zero_grad()
  rows_of(w):sum():backward()
  opt:step()
  show("dense_then_sparse", w)
  print("buffer= " .. python(opt:state_dict().state[0].momentum_buffer.is_sparse))
end

local function kind(label, f)
  local ok, err = pcall(f)
  print(label .. "= " .. (ok and "fine" or err.kind))
end
local function step_of(make, sparse)
  local w = table_of "float32"
  local loss = sparse and rows_of(w):sum() or (w * w):sum()
  loss:backward()
  make({ w }):step()
end
kind("adam", function() step_of(O.Adam, true) end)
kind("adamw", function() step_of(O.AdamW, true) end)
kind("sgd_decay", function() step_of(function(p) return O.SGD(p, { lr = 0.1, weight_decay = 0.1 }) end, true) end)
kind("adagrad_weight_decay", function() step_of(function(p) return O.Adagrad(p, { weight_decay = 0.1 }) end, true) end)
kind("sparse_adam_dense", function() step_of(O.SparseAdam, false) end)
kind("lr0", function() O.SparseAdam({ table_of "float32" }, { lr = 0 }) end)
kind("adagrad_lr0", function() O.Adagrad({ table_of "float32" }, { lr = 0 }) end)
kind("eps0", function() O.SparseAdam({ table_of "float32" }, { eps = 0 }) end)
kind("beta", function() O.SparseAdam({ table_of "float32" }, { betas = { 1.0, 0.9 } }) end)
kind("lr_decay", function() O.Adagrad({ table_of "float32" }, { lr_decay = -1 }) end)
kind("initial", function() O.Adagrad({ table_of "float32" }, { initial_accumulator_value = -1 }) end)
local sparse = rs.sparse_coo_tensor({ { 1 } }, { { 1.0, 2.0 } }, { 4, 2 })
kind("sparse_parameter", function() O.SparseAdam { sparse } end)
for _, opt in ipairs { O.SparseAdam { table_of "float32" }, O.Adagrad { table_of "float32" } } do
  print("print= " .. tostring(opt):gsub(" ", "_"):gsub("\n", "|"))
  local keys = { "states=" }
  for i in pairs(opt:state_dict().state) do keys[#keys + 1] = i end
  print(table.concat(keys, " "))
end
