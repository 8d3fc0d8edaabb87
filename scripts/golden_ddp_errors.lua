-- What PyTorch's ranks raise when DDP and collectives are misused: {case, world, by_rank}. A case is found by its text in
-- tests/golden/programs/ddp_errors.lua. An entry of by_rank is "hangs", {returns}, {type, transport} or an exception's type,
-- words, ranks, numbers and names: kinds, ranks, numbers and names are judged, words are PyTorch's own.
local rs = require "ringside"
local dist = rs.distributed

return function(tools)
  local same, known = tools.same, tools.known

  -- What stands for PyTorch's RuntimeError here, and what ends a wait that would last for ever.
  local WAITS = { MismatchError = true, DeadlockError = true, RankLostError = true, TimeoutError = true }

  local function is_kind(kind, wanted) return kind == wanted or (wanted == "RuntimeError" and WAITS[kind] == true) end

  local function has_number(text, number)
    return (" " .. text .. " "):find("[^%d]" .. math.tointeger(number) .. "[^%d]") ~= nil
  end

  -- ---- an exception ----

  -- Times, which PyTorch tells in milliseconds, are passed over: that a rank has ended is known here without waiting.
  local A_SECOND = 1000

  local function check_numbers(what, text, numbers)
    for _, number in ipairs(numbers) do
      if number < A_SECOND and not has_number(text, number) then
        return ("%s: no %d in: %s"):format(what, number, text)
      end
    end
  end

  local function check_names(what, text, names)
    for _, name in ipairs(names) do
      if not text:find(name, 1, true) then return ("%s: no %s in: %s"):format(what, name, text) end
    end
  end

  local function check_exception(what, got, golden)
    known(what, golden, "type mentions ranks numbers names")
    if not got.kind then return what .. ": nothing was raised" end
    if not is_kind(got.kind, golden.type) then
      return ("%s: got %s, expected %s (%s)"):format(what, got.kind, golden.type, got.text)
    end
    return check_numbers(what .. " ranks", got.text, golden.ranks) or check_numbers(what, got.text, golden.numbers) or
      check_names(what, got.text, golden.names)
  end

  -- ---- other ends ----

  local TRANSPORT = { ["peer gone"] = true, ["timed out"] = true }

  local function check_transport(what, got, golden)
    known(what, golden, "type transport")
    if not TRANSPORT[golden.transport] then return "the transport '" .. tostring(golden.transport) .. "' is not understood" end
    if got.kind and is_kind(got.kind, golden.type) then return nil end
    return ("%s: got %s, expected a %s"):format(what, got.kind or "nothing raised", golden.type)
  end

  local function check_returns(what, got, golden)
    known(what, golden, "returns")
    if got.kind then return what .. ": " .. got.text end
    if golden.returns == rs.none then return nil end
    local wrong
    for name, value in pairs(golden.returns) do
      wrong = wrong or same(what .. " " .. name, (got.returned or {})[name], value)
    end
    return wrong
  end

  local function check_rank(what, got, golden)
    if golden == "hangs" then
      return not (got.kind and WAITS[got.kind]) and what .. ": got " .. (got.kind or "an end") .. ", where PyTorch hangs" or nil
    end
    if type(golden) ~= "table" then return "'" .. tostring(golden) .. "' is not understood" end
    if golden.returns ~= nil then return check_returns(what, got, golden) end
    if golden.transport ~= nil then return check_transport(what, got, golden) end
    return check_exception(what, got, golden)
  end

  -- ---- a case ----

  local book = dofile(os.getenv "GOLDEN_PARTS" .. "/../tests/golden/programs/ddp_errors.lua")

  local function caught(rank, world, run)
    local ok, result = pcall(run, rank, world, tools)
    if ok then return { returned = result } end
    local kind = type(result) == "table" and result.kind or "LuaError"
    return { kind = kind, text = tostring(type(result) == "table" and result.message or result) }
  end

  local function errors_case(case)
    local twin = book(case.case)
    if not twin then return "the case '" .. tostring(case.case) .. "' is not understood" end
    if twin.skipped then return { skipped = twin.skipped } end
    local wrong = same("ranks", #case.by_rank, case.world)
    if wrong then return wrong end
    local ranks = dist.spawn(caught, { world = case.world, args = { case.world, twin.run }, init = not twin.before })
    for rank = 0, case.world - 1 do
      wrong = wrong or check_rank("rank " .. rank, ranks[rank], case.by_rank[rank + 1])
    end
    return wrong
  end

  return function(section, case)
    if section == "cases" and case.case and case.by_rank then return errors_case, "case world by_rank" end
  end
end
