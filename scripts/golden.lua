-- Numbers that PyTorch made, against ours: every case of the files named on the command line, one check each.
-- A file is {header, sections ...}; its header says how it is read. What is not understood here is a failure.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed

rs.lesson { title = "Golden numbers", devices = 16, prefix = "" }

-- ---- tools ----

-- Each golden_PART.lua beside this file answers a function that takes these tools. A part's function answers
-- pick(section, case, file, file name): the function that runs such a case (it answers nil, or what is wrong) and the
-- fields that a case of that form may have; nil if the case is not this part's.
local function part(name) return dofile(os.getenv("GOLDEN_PARTS") .. "/golden_" .. name .. ".lua") end
local tools = part("tensors")
local DTYPES, match, same, shape_of = tools.DTYPES, tools.match, tools.same, tools.shape_of
local rand_after, known = tools.rand_after, tools.known

-- ---- chunk ----

local function chunk_row(case)
  local sizes = {}
  for i, piece in ipairs(rs.zeros { case[1] }:chunk(case[2], 0)) do sizes[i] = piece:size(0) end
  return same("sizes", sizes, case[3])
end

local function chunk_case(case)
  local t = rs.zeros(case.shape)
  if case.raises then
    local ok, err = pcall(t.chunk, t, case.chunks, case.dim)
    return ok and "nothing was raised" or tools.raised(err, case.raises)
  end
  local pieces = t:chunk(case.chunks, case.dim)
  local wrong = same("pieces", #pieces, #case.pieces)
  for i, golden in ipairs(case.pieces) do
    local piece = pieces[i]
    known("a piece", golden, "shape stride offset shares_storage")
    if not piece then break end
    wrong = wrong or same("shape", shape_of(piece), golden.shape) or same("offset", piece:storage_offset(), golden.offset)
    for dim, stride in ipairs(golden.stride) do wrong = wrong or same("stride", piece:stride(dim - 1), stride) end
    wrong = wrong or same("shares storage", piece:storage_id() == t:storage_id(), golden.shares_storage)
  end
  return wrong
end

-- ---- random numbers ----

-- Made empty in the layout that the case names.
local LAYOUTS = {
  contiguous = function(s, o) return rs.empty(s, o) end,
  transposed = function(s, o) return rs.empty({ s[2], s[1] }, o):t() end,
  every_second_column = function(s, o) return rs.empty({ s[1], s[2], 2 }, o):select(2, 0) end,
  channels_last = function(s, o) return rs.empty({ s[1], s[3], s[4], s[2] }, o):transpose(1, 3):transpose(2, 3) end,
  every_second_row_transposed = function(s, o) return rs.empty({ s[2], 2, s[1] }, o):select(1, 0):t() end,
  reversed = function(s, o)
    local sizes, order = {}, {}
    for i = 1, #s do sizes[i], order[i] = s[#s + 1 - i], #s - i end
    return rs.empty(sizes, o):permute(order)
  end,
}

function tools.laid_out(layout, shape, options)
  if not LAYOUTS[layout or "contiguous"] then error("the layout '" .. tostring(layout) .. "' is not understood") end
  return LAYOUTS[layout or "contiguous"](shape, options)
end

local INTEGER_DRAWS = { randint = true, randperm = true }

-- What is filled in place has the dtype that comes out, if the case does not name one; what is made has its op's default.
local function dtype_of(step)
  if not step.dtype and step.op:find("_$") and step.out then return DTYPES[step.out.dtype] end
  return DTYPES[step.dtype or INTEGER_DRAWS[step.op] and "i64" or "f32"]
end

local function draw(step, shape)
  local args, op = step.args or {}, step.op
  local options = { dtype = dtype_of(step) }
  local takes = ({ rand = 0, randn = 0, randperm = 0, randint = 2 })[op]
  if takes and (#args ~= takes or step.layout) then error("the arguments of " .. op .. " are not understood") end
  if op == "rand" or op == "randn" then return rs[op](shape, options) end
  if op == "randint" then return rs.randint(args[1], args[2], shape, options) end
  if op == "randperm" then return rs.randperm(shape[1], options) end
  local t = tools.laid_out(step.layout, shape, options)
  if (op == "rand_like" or op == "randn_like") and #args == 0 then return rs[op](t) end
  if type(op) ~= "string" or not op:find("_$") or not pcall(function() return t[op] end) then
    error("the op '" .. tostring(op) .. "' is not understood")
  end
  return t[op](t, table.unpack(args))
end

local function draw_case(case)
  rs.manual_seed(case.seed)
  return match("out", draw(case, case.shape or { case.n }), case.out) or rand_after(case)
end

local function sequence_case(case)
  local wrong
  rs.manual_seed(case.seed)
  for i, step in ipairs(case.steps) do
    known("step " .. i, step, "op shape out dtype args layout")
    if step.op == "manual_seed" then
      rs.manual_seed(step.args[1])
    else
      local out = draw(step, step.shape)
      wrong = wrong or match("step " .. i .. " " .. step.op, out, step.out)
    end
  end
  return wrong or rand_after(case)
end

local function randperm_case(case)
  rs.manual_seed(case.seed)
  return match("out", rs.randperm(case.n), case.out) or rand_after(case)
end

-- ---- buckets ----

local function assignment_case(case)
  local tensors = {}
  for i, count in ipairs(case.numel) do tensors[i] = rs.empty({ count }, { dtype = DTYPES[case.dtype[i]] }) end
  local buckets, limits = dist._compute_bucket_assignment_by_size(tensors, case.limits, case.sparse, case.indices)
  local wrong = same("buckets", #buckets, #case.buckets) or same("limits", limits, case.bucket_limits)
  for i, golden in ipairs(case.buckets) do wrong = wrong or same("bucket " .. i - 1, buckets[i], golden) end
  return wrong
end

local LOGGED = { "bucket_sizes", "bucket_cap_bytes", "has_rebuilt_buckets", "rebuilt_bucket_sizes",
  "rebuilt_per_bucket_param_indices" }

-- Of zeros: the layers of fifty megabytes would take longer to draw than to train.
local function mlp(widths)
  local layers = {}
  for i = 1, #widths - 1 do
    local layer = nn.Linear(1, 1)
    layer.weight = nn.Parameter(rs.zeros { widths[i + 1], widths[i] })
    layer.bias = nn.Parameter(rs.zeros { widths[i + 1] })
    layers[#layers + 1] = layer
    if i < #widths - 1 then layers[#layers + 1] = nn.ReLU() end
  end
  return nn.Sequential(layers)
end

-- What is asked is how parameters travel, not what they are: `model` names the widths, and the inputs are ones.
local function logging_case(case)
  local widths, cap, find = case.widths, case.bucket_cap_mb, case.find_unused_parameters
  if not widths then return "a model without widths is not understood" end
  if cap == rs.none then cap = nil end
  local data = dist.spawn(function()
    local ddp = nn.parallel.DistributedDataParallel(mlp(widths), { bucket_cap_mb = cap, find_unused_parameters = find })
    for _ = 1, 3 do ddp(rs.ones { 1, widths[1] }):sum():backward() end
    return ddp:_get_ddp_logging_data()
  end, { world = 2 })
  local wrong
  for rank = 0, 1 do
    for _, key in ipairs(LOGGED) do
      if case[key] ~= nil then
        local expected = case[key] ~= rs.none and case[key] or ""
        wrong = wrong or same("rank " .. rank .. " " .. key, data[rank][key] or "", expected)
      end
    end
    if case.ready_order ~= nil then
      wrong = wrong or same("ready order", data[rank].prev_iteration_grad_ready_order_indices, case.ready_order)
    end
  end
  return wrong
end

-- ---- parts ----

local PARTS = { "modules", "optim", "optim_bits", "train", "ops", "parallel", "structures", "autograd", "programs", "stores",
  "collectives", "ddp_models", "ddp_order", "ddp_train", "ddp_errors", "ddp_syncbn" }
tools.printed = part("printed")
tools.powersgd = part("ddp_powersgd")(tools)
local picks = {}
for _, name in ipairs(PARTS) do picks[#picks + 1] = part(name)(tools) end

-- ---- files ----

-- Cases of this file's own forms, and the fields that each may have.
local FORMS = {
  draws = { draw_case, "seed op n shape dtype args layout out rand_after" },
  sequences = { sequence_case, "name seed steps rand_after" },
  randperm = { randperm_case, "seed n out rand_after" },
  assignment = { assignment_case, "name numel dtype limits sparse indices buckets bucket_limits" },
  logging = { logging_case,
    "name model widths bucket_cap_mb find_unused_parameters ready_order " .. table.concat(LOGGED, " ") },
}
local CHUNK_FIELDS = "name shape chunks dim pieces raises"

-- What runs a case of this section, and its fields; nil: not understood.
local function runner(section, case, file, name)
  for _, pick in ipairs(picks) do
    local run, fields = pick(section, case, file, name)
    if run then return run, fields end
  end
  if section == "table" and #case == 3 then return chunk_row end
  if section == "cases" and case.chunks and case.shape then return chunk_case, CHUNK_FIELDS end
  local form = FORMS[section]
  if form then return form[1], form[2] end
end

-- Nothing is passed over in silence: a field that the form does not have is a failure of its case. What cannot be run yet
-- answers {skipped = why}.
local function run_case(name, file, section, case)
  if type(case) ~= "table" then return "not understood" end
  local run, fields = runner(section, case, file, name)
  if not run then return "not understood" end
  if fields then known("the case", case, fields) end
  return run(case, file)
end

-- Sections whose elements hold many cases each.
local EXPANDED = { worlds = tools.cases_of_worlds, runs = tools.cases_of_runs, division = tools.cases_of_division }

local function run_section(name, file, section)
  local seen, cases = {}, file[section]
  if EXPANDED[section] then cases = EXPANDED[section](cases) end
  for i, case in ipairs(cases) do
    local label = type(case) == "table" and (case.name or case.case) or string.format("%s[%d]", section, i - 1)
    seen[label] = (seen[label] or 0) + 1
    if seen[label] > 1 then label = label .. "#" .. seen[label] end
    local ok, wrong = pcall(run_case, name, file, section, case)
    if not ok then wrong = tostring(wrong) end
    if type(wrong) == "table" then
      print(string.format("SKIP %s: %s: %s", name, label, wrong.skipped))
    else
      if wrong then print("# " .. wrong) end
      rs.check(name .. ": " .. label, wrong == nil)
    end
  end
end

local FORMAT = "ringside-golden-1"

for _, path in ipairs(rs.args) do
  local name = path:match("[^/]*$")
  local ok, file = pcall(rs.json_load, path)
  if not ok or type(file) ~= "table" or type(file.header) ~= "table" or file.header.format ~= FORMAT then
    print("# " .. (ok and "no golden file of the format " .. FORMAT or tostring(file)))
    rs.check(name .. ": the file can be read", false)
  else
    for section, content in pairs(file) do
      local context = section == "header" or (section:find("_note$") and type(content) == "string") or
        (section == "models" and #content == 0)
      if not context and type(content) == "table" and #content > 0 then
        run_section(name, file, section)
      elseif section == "cuda" and content.status and content.cases then
        print(string.format("# SKIP %s: cuda, %d cases need a GPU", name, #content.cases))
      elseif not context then
        rs.check(name .. ": " .. section .. " is understood", false)
      end
    end
  end
end
