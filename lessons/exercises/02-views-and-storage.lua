-- Exercise 02: close the gaps, and pay for it once.
-- Change only what lies between the lines. Run it with: ringside run --tap lessons/exercises/02-views-and-storage.lua
local rs = require "ringside"

rs.lesson { title = "Exercise: who owns these bytes?", devices = 2, hardware = "classroom", seed = 2 }

local x = rs.arange(24, { dtype = "float32", device = "device:0" }):view { 4, 6 }
local right = x:chunk(2, 1)[2]      -- columns 3, 4, 5: four rows with gaps between them
local before = rs.trace:seq()

---------------------------------------------------------------------------------------------------------------
-- Part 1. The same 4 x 3 elements on device 0, row after row without gaps, in a storage of their own:
-- one allocation of 48 bytes, and no second copy.
local dense = right

-- Part 2. What you then have.
local strides = { 0, 0 }      -- of dense
local offset = -1             -- of dense in its storage
local again = -1              -- how many bytes dense:contiguous() allocates
---------------------------------------------------------------------------------------------------------------

local function allocated(from)
  local list = {}
  for _, event in ipairs(rs.trace:events { kind = "memory.alloc" }) do
    if event.seq >= from then list[#list + 1] = event.args.bytes end
  end
  return list
end

rs.close("one allocation, of 48 bytes", allocated(before), { 48 })
rs.check("dense is contiguous", dense:is_contiguous())
rs.check("and on device 0", dense.device == "device:0")
rs.check("it does not share x's storage", dense:storage_id() ~= x:storage_id())
rs.close("its elements are those of the piece", dense:tolist(),
  { { 3, 4, 5 }, { 9, 10, 11 }, { 15, 16, 17 }, { 21, 22, 23 } })
rs.close("its strides", strides, dense:stride())
rs.close("its offset", offset, dense:storage_offset())

before = rs.trace:seq()
local same = dense:contiguous()
local bytes = 0
for _, each in ipairs(allocated(before)) do bytes = bytes + each end
rs.close("what a second contiguous() allocates", again, bytes)
rs.check("it answers dense itself", same:storage_id() == dense:storage_id() and dense:storage_id() ~= x:storage_id())

rs.hint "A kernel that wants its elements in one piece asks for them with a method of the tensor that says just that."
rs.hint "is_contiguous() asks; the method without is_ does it, and answers the tensor itself if there is nothing to do."
rs.hint "Strides of a contiguous [4, 3]: 3 elements to the next row, 1 to the next column; a new storage begins at 0."
