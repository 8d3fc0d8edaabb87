-- A kernel breaks the GPU for this process, behind the engine's back: what the engine says of it.
-- `ringside run --trust --executor free --device cuda break.lua -- BARE.SO`; without the word: something else breaks it
local rs = require "ringside"
rs.lesson { title = "broken", devices = 1 }
local x = rs.ones({ 1000 }, { device = "device:0" })
print("before: " .. x:sum():item())
if rs.args[1] then package.loadlib(rs.args[1], "luaopen_bare")().break_gpu() end
for _ = 1, 10 do
  pcall(function() return x:sum():item() end)
end
print("after: " .. x:sum():item())
