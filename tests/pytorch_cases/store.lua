-- What PyTorch's own tests ask of stores and of rendezvous (test/distributed/test_store.py, and of test_c10d_gloo.py what
-- is about the default store). Real ports and files, in one process: ranks of a spawn are the workers. T: rows of the
-- common list; S13: what the page on c10d promises of stores.
local rs = require "ringside"
local dist = rs.distributed

rs.lesson { title = "PyTorch cases: stores", seed = 1, prefix = "" }

-- ---- words for checks ----

-- An error of this kind whose words have all of these in them.
local function refused(kind, words, f, ...)
  local ok, err = pcall(f, ...)
  if ok then return false end
  for word in words:gmatch "%S+" do
    if not tostring(err.message):find(word, 1, true) then print("# " .. tostring(err)) return false end
  end
  if err.kind ~= kind then print("# " .. tostring(err)) end
  return err.kind == kind
end

local function unique(name) return ("/tmp/ringside-cases-%s-%d"):format(name, math.random(1 << 40)) end

local KINDS = {
  { "HashStore", function() return dist.HashStore() end, own = 0, late = "DistStoreError" },
  { "FileStore", function() return dist.FileStore(unique "kind", 1) end, own = 1, late = "RuntimeError" },
  { "TCPStore", function() return dist.TCPStore("localhost", 0, 1, true) end, own = 1, late = "DistStoreError" },
  { "PrefixStore of a HashStore", function() return dist.PrefixStore("prefix", dist.HashStore()) end, own = 0,
    late = "DistStoreError" },
  { "PrefixStore of a FileStore", function() return dist.PrefixStore("prefix", dist.FileStore(unique "prefix", 1)) end,
    own = 1, late = "RuntimeError" },
  { "PrefixStore of a TCPStore",
    function() return dist.PrefixStore("prefix", dist.TCPStore("localhost", 0, 1, true)) end, own = 1,
    late = "DistStoreError" },
}

-- ---- set and get ----

-- T047 and T049: the same in each kind, but for the keys of its own.
local function set_get(kind)
  local store = kind[2]()
  store:add("key", 1) store:add("key", 2) store:add("key", 3)
  store:set("key0", "value0")
  for i = 1, 6 do store:add("key3", i) end
  store:set("key1", "value1") store:set("key2", "value2")
  store:set("-key3", "7")
  local ok = store:get "key" == "6" and store:get "key0" == "value0" and store:get "key1" == "value1" and
    store:get "key2" == "value2" and store:get "key3" == "21" and store:get "-key3" == "7"
  store:delete_key "-key3"
  local counted = store:num_keys() == 5 + kind.own
  store:set("-key3", "7")
  store:delete_key "-key3"
  return ok and counted and store:num_keys() == 5 + kind.own
end

for _, kind in ipairs(KINDS) do
  local row = kind[1]:find "TCP" and "T049" or "T047"
  rs.check(row .. " set, get and add of a " .. kind[1], set_get(kind))
end

local function compare_set(kind)
  local store = kind[2]()
  local absent = store:compare_set("key", "wrong_old", "new")
  local ok = absent == "wrong_old" and not store:check { "key" }
  store:set("key0", "value0")
  ok = ok and store:compare_set("key0", "wrong_value0", "new") == "value0" and store:get "key0" == "value0"
  ok = ok and store:compare_set("key0", "value0", "new") == "new" and store:get "key0" == "new"
  return ok and store:compare_set("fresh", "", "first") == "first" and store:get "fresh" == "first"
end

local function simple_wait(kind)
  local store = kind[2]()
  local late = refused(kind.late, "nobody bad_key", store.wait, store, { "bad_key" }, 0.25)
  store:add("good_key", 1)
  store:wait { "good_key" }
  return late and store:get "good_key" == "1"
end

local function several(kind)
  local store = kind[2]()
  store:multi_set({ "a", "b" }, { "one", "two" })
  local values = store:multi_get { "a", "b" }
  store:append("a", " and more")
  return #values == 2 and values[1] == "one" and values[2] == "two" and store:get "a" == "one and more"
end

local function cloned(kind)
  local store = kind[2]()
  local clone = store:clone()
  store:set("foo", "bar")
  clone:set("baz", "1")
  return clone:get "foo" == "bar" and store:add("baz", 1) == 2
end

for _, kind in ipairs(KINDS) do
  rs.check("T052 compare_set of a " .. kind[1], compare_set(kind))
  rs.check("T054 a wait that times out, and one that does not, of a " .. kind[1], simple_wait(kind))
  rs.check("T064 multi_set and multi_get of a " .. kind[1], several(kind))
  rs.check("T067 a clone of a " .. kind[1] .. " sees what was set", cloned(kind))
end

-- ---- TCP ----

local first = dist.TCPStore("localhost", 0, 1, true)
rs.check("T057 a second server at one port says that it cannot listen there",
  refused("DistNetworkError", "cannot listen " .. first.port, dist.TCPStore, "localhost", first.port, 1, true))

-- The server and five clients, each of which reads a common key and swaps one of its own.
local function fixed_world(workers)
  local server = dist.TCPStore("localhost", 0, { world_size = workers + 1, is_master = true, wait_for_workers = false })
  server:set("key", "value")
  local port = server.port
  local got = dist.spawn(function(rank)
    local dist = require "ringside".distributed
    local store = dist.TCPStore("localhost", port, { world_size = workers + 1, wait_for_workers = false })
    local mine = "key" .. rank
    local value = store:get "key"
    store:set(mine, "value" .. rank)
    return value .. " " .. store:compare_set(mine, "value" .. rank, "next_value" .. rank) .. " " .. store:get(mine)
  end, { world = workers })
  for i = 0, workers - 1 do
    if got[i] ~= ("value next_value%d next_value%d"):format(i, i) then return false end
  end
  return server:get "key4" == "next_value4"
end
rs.check("T059 five workers at one server", fixed_world(5))

rs.check("T062 a world of no ranks", refused("ValueError", "world size 0", dist.TCPStore, "localhost", 0, 0, true))

local patient = dist.TCPStore("localhost", 0, { is_master = true, wait_for_workers = false, timeout = 0.1 })
rs.check("T077 a get that times out leaves the client whole",
  refused("DistStoreError", "nobody missing", patient.get, patient, "missing") and
  (function() patient:set("key", "value") return patient:get "key" == "value" end)())

-- ---- prefixes ----

local inner = dist.HashStore()
local p, q = dist.PrefixStore("p", inner), dist.PrefixStore("q", inner)
p:set("key", "one")
q:set("key", "two")
rs.check("T069 two prefixes over one store", p:get "key" == "one" and q:get "key" == "two" and
  inner:get "p/key" == "one" and inner:get "q/key" == "two" and p.underlying_store == inner and
  dist.PrefixStore("r", p):num_keys() == 2)

-- ---- rendezvous ----

local ENVIRONMENT = { RANK = "0", WORLD_SIZE = "1", MASTER_ADDR = "127.0.0.1", MASTER_PORT = "0" }
do
  local store, rank, size = dist.rendezvous("env://", { env = ENVIRONMENT })
  store:set("key", "value")
  rs.check("T072 env:// answers a store, the rank and the world's size",
    store:get "key" == "value" and rank == 0 and size == 1)
  for name in pairs(ENVIRONMENT) do
    local env = {}
    for other, value in pairs(ENVIRONMENT) do if other ~= name then env[other] = value end end
    rs.check("T072 env:// without " .. name .. " names it",
      refused("ValueError", name .. " expected not set", dist.rendezvous, "env://", { env = env }))
  end
  local env = { MASTER_ADDR = "127.0.0.1", MASTER_PORT = "0" }
  local _, second, three = dist.rendezvous("env://?rank=0&world_size=1", { env = env })
  rs.check("T072 the address may say rank and size itself", second == 0 and three == 1)
end

local function two_ranks(address)
  local got = dist.spawn(function(rank)
    local dist = require "ringside".distributed
    local store, number, size = dist.rendezvous(("%s?rank=%d&world_size=2"):format(address, rank))
    store:set("key" .. number, "value" .. number)
    return { number, size, store:get("key" .. 1 - number) }
  end, { world = 2 })
  for rank = 0, 1 do
    local it = got[rank]
    if it[1] ~= rank or it[2] ~= 2 or it[3] ~= "value" .. 1 - rank then return false end
  end
  return true
end
rs.check("T074 two ranks meet by one file", two_ranks("file://" .. unique "meeting"))

-- A port that was free a moment ago.
local function free_port() return dist.TCPStore("127.0.0.1", 0, 1, true).port end
collectgarbage()
rs.check("T074 two ranks meet by one port", two_ranks("tcp://127.0.0.1:" .. free_port()))

-- A store made with a timeout of one second is done with an absent key in time.
for _, place in ipairs { "file://" .. unique "late", "tcp://127.0.0.1:0" } do
  local address = place .. "?rank=0&world_size=1"
  local store = dist.rendezvous(address, { timeout = 1 })
  rs.check("T079 " .. address:match "^%a+" .. ": the store's timeout is what was asked for", store.timeout == 1 and
    refused(address:find "^file" and "RuntimeError" or "DistStoreError", "waited 1 s", store.get, store, "no such key"))
end

-- ---- what the page promises ----

for url, word in pairs {
  ["tcp://127.0.0.1:0?world_size=1"] = "rank missing", ["tcp://127.0.0.1:0?rank=0"] = "world size missing",
  ["tcp://127.0.0.1?rank=0&world_size=1"] = "port missing", ["file://?rank=0&world_size=1"] = "path missing",
  ["tcp://127.0.0.1:0?rank=x&world_size=1"] = "rank x number",
  ["tcp://127.0.0.1:0?rank=2&world_size=2"] = "rank 2 of 2",
} do
  rs.check("S13 " .. url .. " says what is missing or wrong", refused("ValueError", word, dist.rendezvous, url))
end
rs.check("S13 an unknown scheme",
  refused("RuntimeError", "handler bad://", dist.rendezvous, "bad://x?rank=0&world_size=1"))

for _, kind in ipairs(KINDS) do
  local store = kind[2]()
  if store:has_extended_api() then
    store:queue_push("queue", "first") store:queue_push("queue", "second")
    rs.check("S13 queues of a " .. kind[1], store:queue_len "queue" == 2 and store:queue_pop "queue" == "first" and
      store:queue_pop("queue", false) == "second" and store:queue_len "queue" == 0 and
      refused("QueueEmptyError", "queue empty", store.queue_pop, store, "queue", false))
  else
    rs.check("S13 a " .. kind[1] .. " has no queues",
      refused("NotImplementedError", "queues", store.queue_push, store, "queue", "first"))
  end
end
