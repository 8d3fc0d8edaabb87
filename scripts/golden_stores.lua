-- Logs of what a store answered, call by call: {store, log}, where log is a list of {the call in words, its answer}.
-- The answer is nil, a value, or {raises}. The words refer to the last counter and to keys that were deleted.
local rs = require "ringside"
local dist = rs.distributed

return function(tools)
  local MAKERS = {
    HashStore = function() return dist.HashStore() end,
    FileStore = function() return dist.FileStore(os.tmpname() .. ".store", 1) end,
    TCPStore = function() return dist.TCPStore("127.0.0.1", 0, 1, true) end,
  }

  -- Each pattern of words with what it does: f(run, answer, captures...). run: the store, its last counter, its prefix.
  local CALLS = {
    { "^num_keys at %a+$", function(run) return run.store:num_keys() end },
    { "^set (%S+) (%S+)$", function(run, _, key, value) return run.store:set(key, value) end },
    { "^add (%S+) (%S+)$", function(run, _, key, amount)
      run.counter = key
      return run.store:add(key, math.tointeger(amount))
    end },
    { "^set (%S+) (%S+) then add (%S+) (%S+)$", function(run, _, key, value, other, amount)
      run.store:set(key, value)
      return run.store:add(other, math.tointeger(amount))
    end },
    { "^compare_set absent, expected empty$", function(run, answer) return run.store:compare_set("c", "", answer) end },
    { "^compare_set right expected$", function(run, answer)
      return run.store:compare_set("c", run.store:get "c", answer)
    end },
    { "^compare_set wrong expected$", function(run) return run.store:compare_set("c", "wrong", "third") end },
    { "^compare_set absent, expected something$", function(run, answer)
      return run.store:compare_set("d", answer, "something")
    end },
    { "^wait (%a+)$", function(run, _, which)
      if which == "present" then return run.store:wait { "c" } end
      return which == "absent" and run.store:wait({ which }, 0.2)
    end },
    { "^prefix set (%S+)$", function(run, _, key)
      dist.PrefixStore("pre", run.store):set(key, run.answers["get pre/" .. key .. " of the base store"])
    end },
    { "^get (%S+) of the base store$", function(run, _, key) return run.store:get(key) end },
    { "^get (%S+) after that$", function(run, _, key)
      return run.store:get(run.deleted[key] and run.counter or key)
    end },
    { "^get (%S+)$", function(run, _, key) return run.store:get(key) end },
    { "^get (%S+) again$", function(run, _, key) return run.store:get(key) end },
    { "^delete (%S+)", function(run, _, key)
      run.deleted[key] = true
      return run.store:delete_key(key)
    end },
  }

  local function call(run, words, answer)
    for _, row in ipairs(CALLS) do
      local captures = table.pack(words:match(row[1]))
      if captures[1] then return row[2](run, answer, table.unpack(captures, 1, captures.n)) end
    end
    error("'" .. words .. "' is not understood", 0)
  end

  local function step(run, words, answer)
    if type(answer) == "table" then
      tools.known("an answer", answer, "raises")
      local ok, err = pcall(call, run, words, answer)
      if ok then return words .. ": nothing was raised" end
      return err.kind ~= answer.raises and ("%s: %s instead of %s"):format(words, tostring(err), answer.raises) or nil
    end
    return tools.same(words, call(run, words, answer), answer)
  end

  local function store_case(case)
    local make = MAKERS[case.store]
    if not make then return "the store " .. tostring(case.store) .. " is not understood" end
    local run, wrong = { store = make(), deleted = {}, answers = {} }
    run.store:set_timeout(0.2)
    for _, row in ipairs(case.log) do run.answers[row[1]] = row[2] end
    for _, row in ipairs(case.log) do
      local answer = row[2]
      if answer == rs.none then answer = nil end
      wrong = wrong or step(run, row[1], answer)
    end
    return wrong
  end

  return function(section, case)
    if section == "stores" and case.store and case.log then return store_case, "store log" end
  end
end
