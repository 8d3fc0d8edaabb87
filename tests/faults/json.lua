-- JSON in and out of files, with words that end where a reader's room does. Whoever runs this under a failing allocator must
-- fail for want of memory or be right: what is kept has no other byte, and no text is called wrong.
local rs = require "ringside"

if arg[1] == "nothing" then return end -- so that a test knows what was allocated before

local path = os.tmpname()
local kept = { [("n"):rep(15)] = ("t"):rep(14), [("m"):rep(40)] = { 0.10000000000000001, -1.2345678901234567e-100, ("u"):rep(90) } }
rs.save(kept, path)
local back = rs.load(path)
local list = back[("m"):rep(40)]
rs.check("texts are those", back[("n"):rep(15)] == ("t"):rep(14) and list[3] == ("u"):rep(90))
rs.check("numbers are", list[1] == 0.1 and list[2] == -1.2345678901234567e-100)

local file = assert(io.open(path, "w"))
file:write(('{"%s": [1.2345678901234567, "%s"]}'):format(("k"):rep(31), ("v"):rep(62)))
file:close()
local read = rs.json_load(path)[("k"):rep(31)]
rs.check("a text is read as it stands", read[1] == 1.2345678901234567 and read[2] == ("v"):rep(62))
os.remove(path)
