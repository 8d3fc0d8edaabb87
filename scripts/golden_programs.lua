-- Programs in words: FILE-programs.json. Their Lua twins stand in tests/golden/programs/FILE.lua, a function that is given
-- a case's name and text and answers its twin, or nil, and which fields the twin is given besides what it must answer.
-- A twin is given log, watch, case and tools; it answers what its case expects, by the case's names: tensors, lists,
-- gradients' owners. An error that it does not catch is the case's; one that it catches is its answer `raised`.
local rs = require "ringside"

return function(tools)
  local match, same, number = tools.match, tools.same, tools.number
  local NEAR = { 1e-5, 1e-4 }

  -- ---- errors ----

  -- What an error's message must have, where the sentence is ours: numbers, and names, which are the capitalised words
  -- that begin no sentence.
  local function names_of(text)
    local names, fresh = {}, true
    for word in text:gmatch("%S+") do
      local bare = word:match("[%w_]+")
      if bare and (bare:find("^%d+$") or (bare:find("^%u") and not fresh)) then names[#names + 1] = bare end
      fresh = word:find("[.:]$") ~= nil
    end
    return names
  end

  local function check_message(message, start)
    if message:sub(1, #start) == start then return nil end
    local names = names_of(start)
    for _, name in ipairs(names) do
      if not message:find(name, 1, true) then return "message: got " .. message .. " without " .. name end
    end
    if #names == 0 then return "message: got " .. message end
  end

  local function check_raised(case, err)
    local raises, start = case.raises, case.message_start
    if raises == rs.none then raises = nil end
    if start == rs.none then start = nil end
    if raises == nil then
      if start then return "a message without an error is not understood" end
      return err ~= nil and "an error was raised: " .. tostring(err) or nil
    end
    if err == nil then return "nothing was raised" end
    local kind = type(err) == "table" and err.kind or "LuaError"
    local message = type(err) == "table" and tostring(err.message) or tostring(err)
    if kind ~= raises then return "kind: got " .. kind .. ", expected " .. raises .. " (" .. message .. ")" end
    return start and check_message(message, start)
  end

  -- ---- what came out ----

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
        local wrong = tools.compare(name, tools.flat(got), list, case.tol or NEAR)
        if wrong then return wrong end
      end
    end
  end

  local function check_tensor(name, got, golden, case)
    if golden == rs.none then return same(name, got == nil, true) end
    return match(name, got, golden, case.tol or NEAR)
  end

  local function check_tensors(name, got, goldens, case)
    local wrong
    for key, golden in pairs(goldens) do
      wrong = wrong or check_tensor(name .. " " .. key, (got or {})[key], golden, case)
    end
    for key in pairs(got or {}) do
      if goldens[key] == nil then return name .. " " .. key .. ": nothing is said of it" end
    end
    return wrong
  end

  local function check_list(name, got, golden)
    if got == nil then return name .. ": there is none" end
    return same(name, got, golden)
  end

  -- How an expected field is compared with the twin's answer of that name.
  local ANSWERS = { outputs = check_list, replicas_that_ran = check_list, graph = check_list, penalty = check_tensor,
    input_gradient = check_tensor, grad = check_tensor, grad_dense = check_tensor, param_grads = check_tensors }

  local function program_case(case, twin)
    local events, log, watch = tools.logger()
    local ok, result = pcall(twin, { log = log, watch = watch, case = case, tools = tools })
    local answer = ok and type(result) == "table" and result or {}
    local err = answer.raised
    if not ok then err = result end
    local wrong = check_raised(case, err)
    if wrong then return wrong end
    if case.events then wrong = same("events", tools.ordered(events), tools.ordered(case.events)) end
    for name, check in pairs(ANSWERS) do
      if case[name] ~= nil then wrong = wrong or check(name, answer[name], case[name], case) end
    end
    return wrong or check_values(case, answer) or tools.check_grads(case, answer, case.tol or NEAR)
  end

  -- ---- twins ----

  local books = {}
  local function book_of(name)
    if books[name] == nil then
      local file = name:gsub("%-programs.*%.json$", "") .. ".lua"
      local path = os.getenv("GOLDEN_PARTS") .. "/../tests/golden/programs/" .. file
      local found = io.open(path)
      if found then found:close() end
      books[name] = found and dofile(path) or false
    end
    return books[name]
  end

  local FIELDS = "name program events grads values raises message_start tol note "
  for name in pairs(ANSWERS) do FIELDS = FIELDS .. name .. " " end

  return function(section, case, _, name)
    if section ~= "cases" or type(case.name) ~= "string" or not name or not name:find("%-programs[%w%-]*%.json$") then
      return nil
    end
    local book = book_of(name)
    if not book then return nil end
    local twin, given = book(case.name, case.program)
    if not twin then return nil end
    return function(read) return program_case(read, twin) end, FIELDS .. " " .. (given or "")
  end
end
