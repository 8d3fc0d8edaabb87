-- Steps of optimizers to the bit: what is drawn, what is kept of a tensor and how its bits are summed stands in the file's header.
local rs = require "ringside"

return function(tools)
  local DTYPES, known = tools.DTYPES, tools.known
  local WORD = { f32 = { "<f", "<I4" }, f64 = { "<d", "<i8" } }

  local function drawn(case, shape)
    local low, high, powers = case.exponents[1], case.exponents[2], {}
    for k = low, high do powers[#powers + 1] = 2.0 ^ k end
    local numbers = rs.rand(shape, { dtype = DTYPES[case.dtype] }) * 2 - 1
    local which = rs.randint(0, #powers, shape):reshape(-1)
    return numbers * rs.tensor(powers, { dtype = DTYPES[case.dtype] }):index_select(0, which):reshape(shape)
  end

  local function gradient(case)
    if not case.sparse then return drawn(case, case.shape) end
    local rows = rs.randperm(case.shape[1]):narrow(0, 0, case.sparse)
    return rs.sparse_coo_tensor(rows:unsqueeze(0), drawn(case, { case.sparse, case.shape[2] }), case.shape)
  end

  local function sum_of(list, first, last, word)
    local pack, unpack, sum = string.pack, string.unpack, 0
    for i = first, last do sum = (sum ~ unpack(word[2], pack(word[1], list[i]))) * 0x100000001b3 end
    return string.format("%08x", sum >> 32)
  end

  -- nil: all bits are those that are told.
  local function match_bits(case, what, t, golden)
    known(what, golden, "first sums")
    local list, block = tools.flat(t.is_sparse and t:to_dense() or t), case.block
    if #golden.sums ~= 8 * ((#list + block - 1) // block) then return what .. ": of another size" end
    for i, first in ipairs(golden.first) do
      if list[i] ~= first then return string.format("%s: element %d is %.17g, not %.17g", what, i - 1, list[i], first) end
    end
    for first = 1, #list, block do
      local last, at = math.min(first + block - 1, #list), first // block * 8
      if sum_of(list, first, last, WORD[case.dtype]) ~= golden.sums:sub(at + 1, at + 8) then
        return string.format("%s: elements %d to %d have other bits", what, first - 1, last - 1)
      end
    end
  end

  local function bits_case(case)
    rs.manual_seed(case.seed)
    local param, wrong = rs.nn.Parameter(drawn(case, case.shape)), nil
    local opt = rs.optim[case.optimizer]({ param }, tools.optimizer_options(case.optimizer, case.attrs))
    for i, golden in ipairs(case.params) do
      param.grad = gradient(case)
      opt:step()
      wrong = wrong or match_bits(case, "the parameter after step " .. i, param, golden)
    end
    local state = opt:state_dict().state[0] or {}
    for name, golden in pairs(case.state) do wrong = wrong or match_bits(case, name, state[name], golden) end
    return wrong
  end

  return function(section)
    if section == "bits" then
      return bits_case, "name optimizer attrs dtype seed sparse shape exponents block params state"
    end
  end
end
