-- What collectives, point to point calls and groups answered in PyTorch, for worlds of several sizes: {world, results}.
-- results maps KEY/in to the input by rank, KEY/out (or KEY alone) to what came out, KEY/raises to the kind of error.
-- Each KEY is one case here. A tensor is {t: dtype, s: shape, d: data}; what is equal on all ranks is {every_rank: value}.
local rs = require "ringside"
local dist = rs.distributed

return function(tools)
  local make, plain = tools.make, tools.plain

  -- ---- on a rank ----

  local function make_all(goldens)
    local out = {}
    for i, golden in ipairs(goldens) do out[i] = make(golden) end
    return out
  end

  local function plain_all(list)
    local out = {}
    for i, t in ipairs(list) do out[i] = plain(t) end
    return out
  end

  local function like_all(t, world)
    local out = {}
    for i = 1, world do out[i] = rs.zeros_like(t) end
    return out
  end

  local function next_to(case, rank) return (rank + 1) % case.world, (rank - 1) % case.world end

  -- ---- what each form does: f(case, rank, the words behind the form's, its own input), which answers what came out ----

  local FORMS = {}

  function FORMS.all_reduce(case, rank, words, input)
    local t = make(input)
    dist.all_reduce(t, dist.ReduceOp[words[1]])
    return plain(t)
  end

  function FORMS.order_f32(case, rank, words, input)
    if "n" .. input.s[1] ~= words[1] then error("the length '" .. words[1] .. "' is not understood", 0) end
    local t = make(input)
    dist.all_reduce(t)
    return plain(t)
  end

  function FORMS.reduce(case, rank, words, input)
    local t, root = make(input), tonumber(words[2]:match "^dst(%d+)$")
    dist.reduce(t, root, dist.ReduceOp[words[1]])
    return rank == root and plain(t) or nil
  end

  function FORMS.broadcast(case, rank, words, input)
    local t = make(input)
    dist.broadcast(t, tonumber(words[1]:match "^src(%d+)$"))
    return plain(t)
  end

  function FORMS.all_gather(case, rank, words, input)
    local t = make(input)
    local list = like_all(t, case.world)
    dist.all_gather(list, t)
    return plain_all(list)
  end

  function FORMS.all_gather_into_tensor(case, rank, words, input)
    local t = make(input)
    local out = rs.zeros({ case.world * t:size(0) }, { dtype = t.dtype })
    dist.all_gather_into_tensor(out, t)
    return plain(out)
  end

  function FORMS.gather(case, rank, words, input)
    local t, root = make(input), tonumber(words[1]:match "^dst(%d+)$")
    local list = rank == root and like_all(t, case.world) or nil
    dist.gather(t, list, root)
    return list and plain_all(list)
  end

  function FORMS.scatter(case, rank, words, input)
    local root = tonumber(words[1]:match "^src(%d+)$")
    local t = make(case.root_input[1])
    t:zero_()
    dist.scatter(t, input and make_all(input), root)
    return plain(t)
  end

  function FORMS.reduce_scatter(case, rank, words, input)
    local inputs = make_all(input)
    local out = rs.zeros_like(inputs[rank + 1])
    dist.reduce_scatter(out, inputs)
    return plain(out)
  end

  function FORMS.reduce_scatter_tensor(case, rank, words, input)
    local t = make(input)
    local out = rs.zeros({ t:size(0) // case.world }, { dtype = t.dtype })
    dist.reduce_scatter_tensor(out, t)
    return plain(out)
  end

  function FORMS.all_to_all(case, rank, words, input)
    local inputs = make_all(input)
    local outputs = like_all(inputs[1], case.world)
    dist.all_to_all(outputs, inputs)
    return plain_all(outputs)
  end

  function FORMS.all_to_all_single(case, rank, words, input)
    local t = make(input)
    local out = rs.zeros_like(t)
    dist.all_to_all_single(out, t)
    return plain(out)
  end

  function FORMS.all_reduce_coalesced(case, rank, words, input)
    local list = make_all(input)
    dist.all_reduce_coalesced(list)
    return plain_all(list)
  end

  -- {indices, values, shape} in, a tensor of the type sparse out.
  function FORMS.all_reduce_sparse(case, rank, words, input)
    tools.known("a sparse tensor", input, "indices values shape")
    local t = rs.sparse_coo_tensor(input.indices, make(input.values), input.shape)
    dist.all_reduce(t)
    if not t:is_coalesced() then error("the result is not coalesced", 0) end
    return { t = "sparse", s = tools.shape_of(t), indices = t:indices():tolist(), values = plain(t:values()) }
  end

  -- The case has input and splits in its outcome.
  function FORMS.all_to_all_single_uneven(case, rank)
    local given, rows = case.out[rank + 1], 0
    for _, n in ipairs(given.output_splits) do rows = rows + n end
    local t = make(given.input)
    local out = rs.zeros({ rows }, { dtype = t.dtype })
    dist.all_to_all_single(out, t, given.output_splits, given.input_splits)
    return { input_splits = given.input_splits, output_splits = given.output_splits, input = plain(t), output = plain(out) }
  end

  FORMS["async"] = function(case, rank, words, input)
    local t = make(input)
    local work = dist.all_reduce(t, { async_op = true })
    work:wait()
    return { is_completed_after_wait = work:is_completed(), is_success = work:is_success(), out = plain(t),
      result_is_same_tensor = work:result()[1]:data_ptr() == t:data_ptr() }
  end

  function FORMS.future(case, rank, words, input)
    local t = make(input)
    local future = dist.all_reduce(t, { async_op = true }):get_future()
    local doubled = future:then_(function(fut) return fut:value()[1] * 2 end)
    doubled:wait()
    local value = future:wait()
    return { value_type = type(value) == "table" and "list" or type(value), length = #value, ["then"] = plain(doubled:value()) }
  end

  function FORMS.tags(case, rank)
    local to, from = next_to(case, rank)
    local works = { dist.isend(rs.tensor { 10.0 + rank }, to, { tag = 1 }), dist.isend(rs.tensor { 20.0 + rank }, to, { tag = 2 }) }
    local first, second = rs.zeros { 1 }, rs.zeros { 1 }
    dist.recv(second, from, { tag = 2 })
    dist.recv(first, from, { tag = 1 })
    for _, work in ipairs(works) do work:wait() end
    return { tag1 = first:tolist(), tag2 = second:tolist() }
  end

  function FORMS.recv_any_source(case, rank)
    if rank > 0 then
      dist.send(rs.tensor { rank + 0.0 }, 0, { tag = 77 })
      return nil
    end
    local got = {}
    for i = 1, case.world - 1 do
      local t = rs.zeros { 1 }
      got[i] = { dist.recv(t, { tag = 77 }), t:item() }
    end
    table.sort(got, function(a, b) return a[1] < b[1] end)
    return got
  end

  function FORMS.batch_isend_irecv(case, rank, words, input)
    local to, from = next_to(case, rank)
    local t = make(input)
    local out = rs.zeros_like(t)
    for _, work in ipairs(dist.batch_isend_irecv { dist.P2POp(dist.isend, t, to), dist.P2POp(dist.irecv, out, from) }) do
      work:wait()
    end
    return plain(out)
  end

  function FORMS.ring_shift(case, rank, words, input)
    local to, from = next_to(case, rank)
    local t = make(input)
    local out = rs.zeros_like(t)
    local work = dist.isend(t, to)
    dist.recv(out, from)
    work:wait()
    return plain(out)
  end

  function FORMS.all_gather_object(case, rank)
    local list = {}
    dist.all_gather_object(list, { rank = rank })
    return list
  end

  -- Every rank has a list of its own number and the same behind an x.
  function FORMS.broadcast_object_list(case, rank, words)
    if words[1] ~= "src_last" then error("the root '" .. words[1] .. "' is not understood", 0) end
    local list = { rank, "x" .. rank }
    dist.broadcast_object_list(list, case.world - 1)
    return list
  end

  function FORMS.scatter_object_list(case, rank)
    local objects, out = {}, {}
    for i = 1, case.world do objects[i] = "o" .. i - 1 end
    dist.scatter_object_list(out, rank == 0 and objects or nil, 0)
    return out
  end

  -- The first rank and the last.
  local function ends(case) return dist.new_group { 0, case.world - 1 } end

  function FORMS.new_group_rank(case, rank) return dist.get_rank(ends(case)) end

  function FORMS.new_group_size(case, rank) return dist.get_world_size(ends(case)) end

  function FORMS.new_group_ends_sum(case, rank)
    local t = rs.tensor { rank + 1.0, rank + 1.0 }
    dist.all_reduce(t, { group = ends(case) })
    return t:tolist()
  end

  -- How many words a key has behind its form, and whose input it takes where it has none of its own.
  local WORDS = { all_reduce = 2, order_f32 = 1, reduce = 2, broadcast = 2, gather = 1, scatter = 1,
    broadcast_object_list = 1 }
  local INPUT = { gather = "all_gather", all_gather_into_tensor = "all_gather" }
  local WITHOUT = { all_to_all_single_uneven = true, tags = true, recv_any_source = true, all_gather_object = true,
    broadcast_object_list = true, scatter_object_list = true, new_group_rank = true, new_group_size = true,
    new_group_ends_sum = true }

  -- ---- comparing ----

  local function is_tensor(value) return type(value) == "table" and value.t ~= nil and value.d ~= nil end

  local compare
  function compare(what, got, golden)
    if golden == rs.none then golden = nil end
    if is_tensor(golden) and is_tensor(got) then
      return tools.match_plain(what, got, golden)
    end
    if type(golden) ~= "table" or type(got) ~= "table" then
      local equal = got == golden or (type(got) == "number" and type(golden) == "number" and got == golden)
      return not equal and ("%s: got %s, expected %s"):format(what, tostring(got), tostring(golden)) or nil
    end
    local wrong
    for key, value in pairs(golden) do wrong = wrong or compare(what .. " " .. tostring(key), got[key], value) end
    for key in pairs(got) do
      if golden[key] == nil then wrong = wrong or what .. " has " .. tostring(key) end
    end
    return wrong
  end

  -- ---- a case ----

  -- The value of a rank, where it is a list by rank or the same on all of them.
  local function of_rank(value, rank)
    if value.every_rank ~= nil then
      tools.known("a value", value, "every_rank")
      return value.every_rank
    end
    local own = value[rank + 1]
    return own ~= rs.none and own or nil
  end

  local function first_of(value, world)
    for rank = 0, world - 1 do
      local own = value and of_rank(value, rank)
      if own then return own end
    end
  end

  -- On each rank: {out =} or {raises =}.
  local function run_world(case)
    local form, words = FORMS[case.form], case.words
    return dist.spawn(function(rank)
      local ok, out = pcall(form, case, rank, words, case.input and of_rank(case.input, rank))
      if ok then return { out = out } end
      return { raises = type(out) == "table" and out.kind or "?", message = tostring(out) }
    end, { world = case.world })
  end

  local function collective_case(case)
    local expected_words = WORDS[case.form] or 0
    if not FORMS[case.form] or #case.words ~= expected_words then return "'" .. case.key .. "' is not understood" end
    if not case.input and not WITHOUT[case.form] then return "no input" end
    if case.out == nil and case.raises == nil then return "nothing is expected" end
    case.root_input = first_of(case.input, case.world)
    local results, wrong = run_world(case), nil
    for rank = 0, case.world - 1 do
      local result, what = results[rank], "rank " .. rank
      if case.raises then
        wrong = wrong or tools.same(what, result.raises or "nothing raised", case.raises)
      elseif result.raises then
        wrong = wrong or what .. ": " .. result.message
      else
        wrong = wrong or compare(what, result.out, of_rank(case.out, rank))
      end
    end
    return wrong
  end

  -- ---- from worlds to cases ----

  local function base_of(key)
    local base, what = key:match "^(.*)/(%a+)$"
    if what == "in" or what == "out" or what == "raises" then return base, what end
    return key, "out"
  end

  local function sorted_keys(results)
    local keys = {}
    for key in pairs(results) do keys[#keys + 1] = key end
    table.sort(keys)
    return keys
  end

  -- One case for each key that something is expected of.
  function tools.cases_of_worlds(worlds)
    local cases = {}
    for _, entry in ipairs(worlds) do
      tools.known("a world", entry, "world results")
      local by_base = {}
      for _, key in ipairs(sorted_keys(entry.results)) do
        local base, what = base_of(key)
        local case = by_base[base]
        if not case then
          local form, rest = base:match "^([^/]+)/?(.*)$"
          case = { name = ("world %d: %s"):format(entry.world, base), key = base, world = entry.world, form = form, words = {} }
          for word in rest:gmatch "[^/]+" do case.words[#case.words + 1] = word end
          by_base[base], cases[#cases + 1] = case, case
        end
        case[what == "in" and "input" or what] = entry.results[key]
      end
      for base, case in pairs(by_base) do
        local other = INPUT[case.form]
        if not case.input and other then case.input = entry.results[other .. "/in"] end
      end
    end
    return cases
  end

  return function(section, case)
    if section == "worlds" and case.key and case.form then
      return collective_case, "name key world form words input out raises"
    end
  end
end
