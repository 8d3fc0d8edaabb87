-- Cases of the backward engine: random graphs given as data. What logs which node has run serves programs in words, too.
local rs = require "ringside"

return function(tools)
  local match, same, known = tools.match, tools.same, tools.known

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
  tools.logger, tools.ordered = logger, ordered

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

  tools.check_grads = check_grads

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

  return function(section, case)
    if section ~= "cases" or type(case.name) ~= "string" then return nil end
    if type(case.program) == "table" and case.program.leaves and case.program.ops and case.events then
      return graph_case, "name program events grads tol note"
    end
  end
end
