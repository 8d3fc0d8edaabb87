-- Gathering what replicas gave: containers of unequal length are refused.
local rs = require "ringside"
rs.lesson { title = "strict gather", devices = 3 }
local none, tuple = rs.none, rs.tuple
local Pair = rs.namedtuple("Pair", { "a", "b" })
local OUTPUTS = { { "tuples", { tuple(none, none), tuple(none) } }, { "longer", { tuple(none), tuple(none, none) } },
  { "lists", { { none }, { none, none } } }, { "last", { tuple(none), tuple(none), tuple() } },
  { "inside", { tuple(tuple(none), none), tuple(tuple(), none) } }, { "pairs", { Pair(none, none), tuple(none) } },
  { "equal", { tuple(none, { none }), tuple(none, { none }) } }, { "both-empty", { tuple(), tuple() } },
  { "dicts", { { a = none }, { a = none, b = none } } } }
for _, case in ipairs(OUTPUTS) do
  local ok, err = pcall(rs.nn.parallel.gather, case[2], 0)
  print(case[1] .. " " .. (ok and "gathered" or err.kind))
end
