-- Each kind of store, what it can be asked, and ranks that meet at one. Whoever runs this under a failing allocator must
-- fail or be right.
local rs = require "ringside"
local dist = rs.distributed

rs.lesson { title = "Stores" }
if arg[1] == "nothing" then return end -- so that a test knows what was allocated before

local tcp = dist.TCPStore("127.0.0.1", 0, 1, true)
local path = "/tmp/ringside-faults-" .. tcp.port
local stores = { hash = dist.HashStore(), file = dist.FileStore(path, 1), tcp = tcp, prefix = dist.PrefixStore("p", tcp) }
for name, store in pairs(stores) do
  store:set("key", "value")
  store:set("n", "0") -- a run that could not end well may have left its file
  store:append("key", " and more")
  store:multi_set({ "a", "b" }, { "1", "2" })
  local clone = store:clone()
  rs.check(name .. ": get", clone:get "key" == "value and more")
  rs.check(name .. ": add", clone:add("n", 3) + clone:add("n", 4) == 10)
  rs.check(name .. ": compare_set", store:compare_set("key", "value and more", "other") == "other")
  rs.check(name .. ": multi_get", table.concat(store:multi_get { "a", "b" }) == "12")
  rs.check(name .. ": delete_key", store:delete_key "b" and not store:check { "b" })
  if store:has_extended_api() then
    store:queue_push("q", "first")
    rs.check(name .. ": queues", store:queue_pop "q" == "first")
  end
  local ok, err = pcall(store.wait, store, { "never" }, 0.02)
  if not ok and err.kind == "MemoryError" then error(err) end
  rs.check(name .. ": a wait ends", not ok and err.kind ~= "LuaError")
end

local port = tcp.port
local got = dist.spawn(function(rank)
  local dist = require "ringside".distributed
  local store = dist.TCPStore("127.0.0.1", port, { timeout = 1 })
  store:set("rank" .. rank, "hello " .. rank)
  return store:get("rank" .. 1 - rank)
end, { world = 2 })
rs.check("ranks meet", got[0] == "hello 1" and got[1] == "hello 0")
