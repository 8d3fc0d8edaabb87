-- Cases of the backward engine: random graphs given as data, and programs in words, whose Lua twins stand in
-- tests/golden/programs/FILE.lua (FILE.json without "-programs") and are found by name and text together.
local rs = require "ringside"

return function(tools)
  local match, same, number, known = tools.match, tools.same, tools.number, tools.known

  -- Neighbouring AccumulateGrad events have no order: sorted.
  local function ordered(events)
    local out, from = {}, 1
    for i, event in ipairs(events) do out[i] = event end
    while from <= #out do
      local to = from
      while to <= #out and out[to]:find("^AccumulateGrad") do to = to + 1 end
      if to > from then
        local part = table.move(out, from, to - 1, 1, {})
        table.sort(part)
        table.move(part, 1, #part, from, out)
      end
      from = math.max(to, from + 1)
    end
    return out
  end

  -- What programs are given: log(text), and watch(tensors by name, root): each node that made one, and each leaf's
  -- AccumulateGrad, logs when it has run.
  local function logger()
    local events = {}
    local function log(text) events[#events + 1] = text end
    local function watch(named, root)
      for name, t in pairs(named) do
        if t.grad_fn then t.grad_fn:register_hook(function() log(name) end) end
      end
      local seen = {}
      local function walk(node)
        if node == rs.none or seen[node] then return end
        seen[node] = true
        for name, t in pairs(named) do
          if node.variable ~= nil and node.variable == t and not seen[t] then
            seen[t] = true
            node:register_hook(function() log("AccumulateGrad(" .. name .. ")") end)
          end
        end
        for _, edge in ipairs(node.next_functions) do walk(edge[1]) end
      end
      walk(root.grad_fn)
    end
    return events, log, watch
  end

  local function check_grads(case, grads, tol)
    for name, golden in pairs(case.grads or {}) do
      local grad = grads[name] and grads[name].grad
      if golden == rs.none then
        if grad ~= nil then return name .. ".grad: something has come" end
      elseif grad == nil then
        return name .. ".grad: none has come"
      else
        local wrong = match(name .. ".grad", grad, golden, tol)
        if wrong then return wrong end
      end
    end
  end

  -- ---- graphs as data ----

  -- A method of tensors, of one operand or two.
  local probe = rs.zeros { 1 }
  local function method(name)
    local ok, found = pcall(function() return probe[name] end)
    return ok and type(found) == "function" and found or nil
  end

  local function graph_case(case)
    local events, log, watch = logger()
    local pool, leaves, named = {}, {}, {}
    known("the program", case.program, "leaves ops note")
    for i, golden in ipairs(case.program.leaves) do
      pool[i] = tools.tensor(golden):requires_grad_()
      leaves["l" .. i - 1] = pool[i]
      named["l" .. i - 1] = pool[i]
    end
    for i, op in ipairs(case.program.ops) do
      if not method(op[1]) then return "the op '" .. tostring(op[1]) .. "' is not understood" end
      if #op > 3 then return "an op of more than two operands is not understood" end
      local result = method(op[1])(pool[op[2] + 1], op[3] and pool[op[3] + 1])
      pool[#pool + 1] = result
      named["n" .. i - 1] = result
    end
    local last = pool[#pool]:sum()
    named.last = last
    watch(named, last)
    last:backward()
    return same("events", ordered(events), ordered(case.events)) or check_grads(case, leaves, case.tol or { 1e-5, 1e-4 })
  end

  -- ---- programs in words ----

  local function check_raised(case, ok, err)
    if (case.raises == nil or case.raises == rs.none) and case.message_start and case.message_start ~= rs.none then
      return "a message without an error is not understood"
    elseif case.raises == nil then
      return not ok and tostring(err) or nil
    elseif case.raises == rs.none then
      return not ok and "an error was raised: " .. tostring(err) or nil
    elseif ok then
      return "nothing was raised"
    end
    local kind = type(err) == "table" and err.kind or "LuaError"
    local message = type(err) == "table" and tostring(err.message) or tostring(err)
    if kind ~= case.raises then return "kind: got " .. kind .. ", expected " .. case.raises .. " (" .. message .. ")" end
    if case.message_start ~= rs.none and message:sub(1, #case.message_start) ~= case.message_start then
      return "message: got " .. message
    end
  end

  local function check_values(case, values)
    for name, golden in pairs(case.values or {}) do
      local got = values[name]
      if golden == rs.none then
        if got ~= nil then return name .. ": got something" end
      elseif got == nil then
        return name .. ": there is none"
      else
        local list = {}
        for i, value in ipairs(golden) do list[i] = number(value) end
        local wrong = tools.compare(name, tools.flat(got), list, case.tol or { 1e-5, 1e-4 })
        if wrong then return wrong end
      end
    end
  end

  local function program_case(case, twin)
    local events, log, watch = logger()
    local ok, result = pcall(twin, { log = log, watch = watch, case = case })
    local wrong = check_raised(case, ok, result)
    if wrong then return wrong end
    result = ok and type(result) == "table" and result or {}
    if case.events then wrong = same("events", ordered(events), ordered(case.events)) end
    return wrong or check_values(case, result) or check_grads(case, result, case.tol or { 1e-5, 1e-4 })
  end

  local books = {}
  local function book_of(name)
    if books[name] == nil then
      local path = os.getenv("GOLDEN_PARTS") .. "/../tests/golden/programs/" .. name:gsub("%-programs%.json$", "") .. ".lua"
      local found = io.open(path)
      if found then found:close() end
      books[name] = found and dofile(path) or false
    end
    return books[name]
  end

  return function(section, case, _, name)
    if section ~= "cases" or type(case.name) ~= "string" then return nil end
    if type(case.program) == "table" and case.program.leaves and case.program.ops and case.events then
      return graph_case, "name program events grads tol note"
    end
    if type(case.program) ~= "string" or not name or not name:find("%-programs%.json$") then return nil end
    local book = book_of(name)
    local twin = book and book(case.name, case.program)
    if not twin then return nil end
    return function(given) return program_case(given, twin) end,
      "name program events grads values raises message_start tol note"
  end
end
