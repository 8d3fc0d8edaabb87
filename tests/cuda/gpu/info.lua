-- `ringside run --trust --quiet info.lua -- BARE.SO`: how many GPUs there are, then a line about the first.
local open = package.loadlib(require "ringside".args[1], "luaopen_bare")
local bare = open and open()
print(bare and bare.gpus() or 0)
if bare and bare.gpus() > 0 then print(bare.info()) end
