-- Cases of DataParallel's structures: what scatter_kwargs makes of nested arguments, what gather makes of nested outputs,
-- and which tensors broadcast_coalesced and reduce_add_coalesced send together.
local rs = require "ringside"
local parallel = rs.nn.parallel

return function(tools)
  local same, known, show = tools.same, tools.known, tools.show

  -- ---- structures: {tensor, first} {value} {tuple} {list} {dict = [[key, value]]} {namedtuple = fields in order} ----

  local TUPLE = getmetatable(rs.tuple {})

  local function form_of(golden)
    if type(golden) ~= "table" then error("'" .. tostring(golden) .. "' is no structure", 0) end
    local form
    for name in pairs(golden) do
      if name ~= "first" then
        if form then error("'" .. form .. "' together with '" .. name .. "' is not understood", 0) end
        form = name
      end
    end
    if golden.first ~= nil and form ~= "tensor" then error("'first' of what is no tensor is not understood", 0) end
    return form
  end

  local function elements_from(shape, first)
    local count = tools.count_of(shape)
    if first == true then return rs.ones(shape, { dtype = "bool" }) end
    if count == 0 then return rs.zeros(shape) end
    if type(first) ~= "number" then error("the first element '" .. tostring(first) .. "' is not understood", 0) end
    return (rs.arange(count):to("float32") + first):reshape(shape)
  end

  local function fields_type(count)
    local fields = {}
    for i = 1, count do fields[i] = "field" .. i end
    return rs.namedtuple("Fields", fields)
  end

  -- `place`: what is done with each tensor.
  local MAKE, make = {}, nil
  function MAKE.tensor(golden, place) return place(elements_from(golden.tensor, golden.first)) end
  function MAKE.value(golden) return golden.value end
  local function items(list, place)
    local out = {}
    for i = 1, #list do out[i] = make(list[i], place) end
    return out
  end
  function MAKE.list(golden, place) return items(golden.list, place) end
  function MAKE.tuple(golden, place) return rs.tuple(items(golden.tuple, place)) end
  function MAKE.namedtuple(golden, place)
    local fields = {}
    for i, value in ipairs(items(golden.namedtuple, place)) do fields["field" .. i] = value end
    return fields_type(#golden.namedtuple)(fields)
  end
  function MAKE.dict(golden, place)
    local out = {}
    for _, pair in ipairs(golden.dict) do
      if type(pair[1]) ~= "string" then error("the key '" .. tostring(pair[1]) .. "' is not understood", 0) end
      out[pair[1]] = make(pair[2], place)
    end
    return out
  end
  function make(golden, place)
    local form = form_of(golden)
    if not MAKE[form] then error("the structure '" .. tostring(form) .. "' is not understood", 0) end
    return MAKE[form](golden, place)
  end

  local MATCH, matches = {}, nil
  function MATCH.tensor(what, got, golden)
    if type(got) ~= "userdata" or got == rs.none then return what .. ": no tensor, but " .. tostring(got) end
    local wrong = same(what .. " shape", tools.shape_of(got), golden.tensor)
    local dtype = golden.first == true and "bool" or "float32"
    wrong = wrong or same(what .. " dtype", got.dtype, dtype)
    if wrong or got:numel() == 0 then return wrong or same(what .. " first", rs.none, golden.first) end
    local first = tools.flat(got)[1]
    if golden.first == true then return same(what .. " first", first, 1) end
    return same(what .. " first", first, golden.first + 0.0)
  end
  function MATCH.value(what, got, golden)
    if golden.value == rs.none then return same(what, got == nil or got == rs.none, true) end
    if type(golden.value) == "table" then error("a value that is a table is not understood", 0) end
    if math.type(got) ~= math.type(golden.value) then return what .. ": got " .. show(got) end
    return same(what, got, golden.value)
  end
  -- A sequence with this metatable, and nothing more than these.
  local function sequence(what, got, list, metatable)
    if type(got) ~= "table" then return what .. ": no table, but " .. tostring(got) end
    if metatable ~= getmetatable(got) then return what .. ": of another type" end
    local wrong = same(what .. " items", #got, #list)
    for i = 1, #list do wrong = wrong or matches(what .. "[" .. i - 1 .. "]", got[i], list[i]) end
    return wrong
  end
  function MATCH.list(what, got, golden) return sequence(what, got, golden.list, nil) end
  function MATCH.tuple(what, got, golden) return sequence(what, got, golden.tuple, TUPLE) end
  function MATCH.namedtuple(what, got, golden)
    if type(got) ~= "table" or getmetatable(got) ~= "Fields" then return what .. ": no namedtuple of its type" end
    local wrong = sequence(what, got, golden.namedtuple, "Fields")
    for i = 1, #golden.namedtuple do
      wrong = wrong or matches(what .. ".field" .. i, got["field" .. i], golden.namedtuple[i])
    end
    return wrong
  end
  function MATCH.dict(what, got, golden)
    if type(got) ~= "table" or getmetatable(got) then return what .. ": no dict, but " .. tostring(got) end
    local keys, wrong = {}, nil
    for _, pair in ipairs(golden.dict) do
      keys[pair[1]] = true
      wrong = wrong or matches(what .. "." .. pair[1], got[pair[1]], pair[2])
    end
    for key in pairs(got) do
      if not keys[key] then wrong = wrong or what .. ": nothing is said of " .. tostring(key) end
    end
    return wrong
  end
  function matches(what, got, golden)
    local form = form_of(golden)
    if not MATCH[form] then error("the structure '" .. tostring(form) .. "' is not understood", 0) end
    return MATCH[form](what, got, golden)
  end

  -- ---- scatter_kwargs ----

  -- An error against {kind, message}: kind, numbers, and names in quotes that are not those of Python's types.
  local function raised(err, golden)
    local wrong = tools.raised(err, golden)
    for name in tostring(golden[2]):gmatch("'([^' ]+)'") do
      local python = name == "int" or name == "float" or name == "bool"
      local found = python or err.message:find(name, 1, true)
      wrong = wrong or same("a message with " .. name, found and name or err.message, name)
    end
    return wrong
  end

  local function itself(t) return t end

  local function scatter_case(case)
    if not case.args.tuple or not case.kwargs.dict then
      return "arguments that are no tuple and no dict are not understood"
    end
    local args, kwargs = make(case.args, itself), make(case.kwargs, itself)
    local ok, inputs, words = pcall(parallel.scatter_kwargs, args, kwargs, tools.device_list(case.devices), case.dim)
    if case.raises then return ok and "nothing was raised" or raised(inputs, case.raises) end
    if not ok then return tostring(inputs) end
    local wrong = same("replicas", #inputs, case.replicas) or same("replicas by keyword", #words, case.replicas) or
      same("out_args", #case.out_args, case.replicas) or same("out_kwargs", #case.out_kwargs, case.replicas)
    for r = 1, case.replicas do
      wrong = wrong or matches("replica " .. r - 1, inputs[r], case.out_args[r]) or
        matches("replica " .. r - 1 .. " by keyword", words[r], case.out_kwargs[r])
    end
    return wrong
  end

  -- ---- gather ----

  local function gather_case(case)
    local outputs = {}
    for i, golden in ipairs(case.outputs) do
      outputs[i] = make(golden, function(t) return t:to("device:" .. i - 1) end)
    end
    local from = rs.trace:seq()
    local results = table.pack(pcall(parallel.gather, outputs, 0, case.dim))
    if case.raises then return results[1] and "nothing was raised" or raised(results[2], case.raises) end
    if not results[1] then return tostring(results[2]) end
    if results.n ~= 2 then return "several results" end
    local result = results[2]
    return matches("result", result, case.result) or same("warnings", tools.warnings_since(from), case.warnings)
  end

  -- ---- coalescing ----

  -- {dtype, count} of each tensor.
  local function specs_of(case)
    local specs = {}
    for i, count in ipairs(case.sizes_in_f32_elements or {}) do specs[i] = { "f32", count } end
    for i, spec in ipairs(case.types_and_elements or {}) do specs[i] = spec end
    return specs
  end

  local function tensors_on(specs, device)
    local tensors = {}
    for i, spec in ipairs(specs) do
      tensors[i] = rs.ones({ spec[2] }, { dtype = tools.DTYPES[spec[1]], device = "device:" .. device })
    end
    return tensors
  end

  -- Those that came in one buffer have one storage; the buffers are numbered as they were made.
  local function groups_of(tensors)
    local members, storages, groups = {}, {}, {}
    for i, t in ipairs(tensors) do
      local storage = t:storage_id()
      if not members[storage] then
        members[storage] = {}
        storages[#storages + 1] = storage
      end
      table.insert(members[storage], i - 1)
    end
    table.sort(storages)
    for i, storage in ipairs(storages) do groups[i] = members[storage] end
    return groups
  end

  local function coalescing_case(case)
    local limit = math.tointeger(case.name:match("limit (%d+)"))
    if not limit then return "a case without a limit in its name is not understood" end
    local specs, wrong = specs_of(case), nil
    local reduce = case.groups or case.groups_reduce
    if case.groups_broadcast then
      local copies = parallel.comm.broadcast_coalesced(tensors_on(specs, 0), { 0, 1 }, limit)
      wrong = same("groups of the broadcast", groups_of(copies[2]), case.groups_broadcast)
    end
    if reduce then
      local sums = parallel.comm.reduce_add_coalesced({ tensors_on(specs, 0), tensors_on(specs, 1) }, 0, limit)
      wrong = wrong or same("groups of the sum", groups_of(sums), reduce)
    end
    if not reduce and not case.groups_broadcast then return "a case without groups is not understood" end
    return wrong
  end

  return function(section, case)
    if section ~= "cases" then return nil end
    if case.args and case.kwargs and case.devices then
      return scatter_case, "name devices dim args kwargs replicas out_args out_kwargs raises note"
    end
    if type(case.outputs) == "table" and case.dim and (case.result or case.raises) then
      return gather_case, "name dim outputs result warnings raises note"
    end
    if case.sizes_in_f32_elements or case.types_and_elements then
      if case.sizes_in_f32_elements and case.types_and_elements then error("sizes of two forms are not understood", 0) end
      return coalescing_case, "name sizes_in_f32_elements types_and_elements groups groups_broadcast groups_reduce note"
    end
  end
end
