-- What the GPU and its driver do without anybody in between, as lines of JSON for figures.lua.
-- `ringside run --trust --quiet bare.lua -- BARE.SO`
local bare = package.loadlib(require "ringside".args[1], "luaopen_bare")()
local function line(case, unit, value)
  print(string.format('{"impl": "bare", "case": "%s", "unit": "%s", "median": %.9g}', case, unit, value))
end
line("launch", "us", bare.launch(20000))
line("elementwise", "GB/s", bare.stream(1 << 28))
line("copy", "GB/s", bare.copy(1 << 28))
