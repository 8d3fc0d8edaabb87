-- Ours against Lua's own library in the same state: `plain` has Lua's own `string`, `table` and `utf8`, `wanted` says which
-- part to run. Results, messages and the order in which a table is touched must be the same. Ends by answering how many
-- cases there were.
local cases = 0

-- All that a call answers or raises, as one text. Tables and functions have numbers of their own; which argument of
-- table.remove is out of bounds is told differently from release to release.
local function outcome(f, ...)
  local ok, got = pcall(function(...) local got = plain.table.pack(f(...)) return got end, ...)
  if not ok then
    return "raised: " .. (plain.string.gsub(tostring(got), "argument #%d to '%w+' %(position out", "argument (position out"))
  end
  local words = {}
  for i = 1, got.n do
    words[i] = math.type(got[i]) == "float" and ("%a"):format(got[i]) or plain.string.gsub(tostring(got[i]), "^(%l+): %d+$", "%1")
  end
  return got.n .. ": " .. plain.table.concat(words, " | ")
end

local function show(...)
  local words = plain.table.pack(...)
  for i = 1, words.n do words[i] = type(words[i]) == "string" and plain.string.format("%q", words[i]) or tostring(words[i]) end
  return plain.table.concat(words, ", ")
end

local function same(name, ours, own, ...)
  cases = cases + 1
  local a, b = outcome(ours, ...), outcome(own, ...)
  if a ~= b then error(name .. "(" .. show(...) .. ")\n  is      " .. a .. "\n  must be " .. b, 0) end
end

local function same_string(name, ...) same("string." .. name, string[name], plain.string[name], ...) end

-- ---- patterns ----

local function all_matches(library, text, pattern, ...)
  local found = {}
  for a, b in library.gmatch(text, pattern, ...) do
    found[#found + 1] = tostring(a) .. "," .. tostring(b)
    if #found > 40 then break end
  end
  return plain.table.concat(found, ";")
end

local replacements = {
  "", "x", "<%0>", "<%1>", "%2%1", "%%", "%", "%q", "a%", "%9", 7, 1.5,
  function(a, b) return b or a end, function() return nil end, function() return false end,
  function() return {} end, function(a) return #tostring(a) end, function() error("in the replacement", 0) end,
  { a = "A", b = false, ab = 12, [1] = "one" }, { a = {} }, setmetatable({}, { __index = function(_, k) return k .. k end }),
}

local function same_pattern(text, pattern)
  local init = math.random(-3, 4)
  same_string("find", text, pattern)
  same_string("match", text, pattern)
  same_string("find", text, pattern, init)
  same_string("match", text, pattern, init)
  same_string("find", text, pattern, init, true)
  same("gmatch", function(...) return all_matches(string, ...) end, function(...) return all_matches(plain.string, ...) end,
    text, pattern)
  same("gmatch", function(...) return all_matches(string, ...) end, function(...) return all_matches(plain.string, ...) end,
    text, pattern, init)
  local with = replacements[math.random(#replacements)]
  same_string("gsub", text, pattern, with)
  same_string("gsub", text, pattern, with, math.random(-1, 3))
end

local patterns = {
  "", "a", "ab", ".", "..", "a*", "a+", "a-", "a?", "a-b", "a*b", "a+b", "a?b", ".-b", ".*b", ".+b", "^a", "^a*", "a$", "^a$",
  "^$", "$", "^", "a^", "$a", "a$b", "^^a", "(a)", "(a*)", "(a)(b)", "((a)b)", "(a(b))", "()", "()a()", "(()a)", "(a)%1",
  "(.)%1", "(.-)%1", "(a*)%1", "()%1", "(a)%2", "%1", "%0", "(a%1)", "(%1)", "((a)%1)", "((a)%2)", "((a)%2)%1", "(", ")", "(a",
  "a)", "((a)", "(a))", "(()", "%", "a%", "(%", "[", "[a", "[^", "[^a", "[]", "[]]", "[^]]", "[^]", "[]a]", "[a]", "[^a]", "[ab]",
  "[a-c]", "[c-a]", "[a-]", "[-a]", "[^-a]", "[--a]", "[a-a]", "[%a]", "[%]]", "[%", "[%a", "[a%]", "[%d%s]", "[^%d%s]", "[%D]",
  "[%W%d]", "[a-%z]", "[%a-z]", "[a-%%]", "[a-%]]", "[+--]", "[.]", "[(]", "[$]", "[^^]", "[\0-\127]", "[\128-\255]", "[\0]", "[^\0]",
  "%a", "%c", "%d", "%g", "%l", "%p", "%s", "%u", "%w", "%x", "%z", "%A", "%C", "%D", "%G", "%L", "%P", "%S", "%U", "%W", "%X",
  "%Z", "%e", "%E", "%.", "%%", "%(", "%-", "%_", "%\0", "%b()", "%b", "%b(", "%bxx", "%baa", "%b()*", "(%b())", "%b\0a", "%f[a]",
  "%f[%w]", "%f[^%w]", "%f[%w]%w+", "%f[%z]", "%f[\0]", "%f", "%fa", "%f[", "%f[a", "%f[]", "()%f[%w]%w+()", "%f[%W]", "a**", "a*+",
  "a+*", "a??", "a--", "*", "+", "-", "?", "*a", "(*)", "(+a)", "(a)*", "(a)+", "(a)?", "(a)-", "%1*", "(a*(.)%w(%s*))", "(.)(.)%2%1",
  "^(%s*)(.-)(%s*)$", "(%w+)=(%w+)", "%s+$", "^%s+", "[%w_]+", "(%d+)%.(%d+)", "%d+%.?%d*", "^[+-]?%d+$", "[^,]*", "[^,]+", "(.-),",
  "\0", "a\0b", "\0+", "[\0a]+", "\xe4", "[\xe0-\xff]", ("(a)"):rep(32), ("(a)"):rep(33), ("()"):rep(32), ("()"):rep(33),
  ("a?"):rep(100), ("a?"):rep(199), ("a?"):rep(200), ("a?"):rep(201), ("a?"):rep(202), ("a?"):rep(203), ("a?"):rep(250), ("a*"):rep(199), ("a*"):rep(200),
  ("a*"):rep(201), ("a*"):rep(202), ("a*"):rep(203), ("a-"):rep(199), ("a-"):rep(200), ("a-"):rep(201), ("a-"):rep(202), ("a-"):rep(203), ("(a-)"):rep(3), ("()"):rep(20) .. ("a?"):rep(180), ("()"):rep(20) .. ("a?"):rep(181), ("()"):rep(20) .. ("a?"):rep(182), ("a"):rep(300), ("."):rep(40) .. "*", ("[ab]"):rep(20) .. "?",
  ("%a"):rep(40), ("("):rep(33), (")"):rep(3), ("[%w]"):rep(10) .. "[", "((((((((((a))))))))))%1%5%9", "%f[%a]%a+%f[%A]",
}
local subjects = {
  "", "a", "b", "ab", "aab", "abab", "aaab", "ba", "aa", "abc", "a,b,,c", "key=value, k2=v2", "  trim me  ", "hello world 12.50 times",
  "(a(b)c)(", "f(a(b)c) x", "THE (quick) fox", "\0", "a\0b\0", "\0\0a", "xx", "-", "[]", "a]b", "^a$", "%d", "\xe4\xf6 \xff", "aAbB19_!\t\n",
  ("a"):rep(40), ("a"):rep(260), ("ab"):rep(30),
}

local pieces = {
  "a", "a", "b", "b", "c", "1", " ", ".", "%a", "%d", "%s", "%w", "%W", "%S", "%x", "[ab]", "[^a]", "[a-c%d]", "[]", "[^]", "[%w_]", "*", "*",
  "+", "+", "-", "-", "?", "?", "(", ")", "(", ")", "()", "%1", "%2", "%b()", "%bab", "%f[a]", "%f[%w]", "^", "$", "%", "[", "]", "%%", "\0", "%0", "[a-",
}
local letters = { "a", "a", "a", "b", "b", "c", "1", " ", "(", ")", ".", "\0", "-", "]", "%" }

local function drawn(list, most)
  local words = {}
  for i = 1, math.random(0, most) do words[i] = list[math.random(#list)] end
  return plain.table.concat(words)
end

local parts = {}

function parts.patterns()
  for _, pattern in ipairs(patterns) do
    for _, text in ipairs(subjects) do same_pattern(text, pattern) end
  end
end

function parts.random_patterns()
  for _ = 1, 6000 do same_pattern(drawn(letters, 14), drawn(pieces, 7)) end
end

function parts.wrong_arguments()
  for _, name in ipairs { "find", "match", "gmatch", "gsub" } do
    for _, arguments in ipairs { {}, { "a" }, { {}, "a" }, { "a", {} }, { "a", "a", {} }, { "a", "a", "x", "x" }, { "a", "a", 1.5 },
      { 12, 1 }, { 12, 1, "9" }, { "a", "a", true }, { "a", "a", nil, 1 }, { "a", "a", print, {} }, { "a", "a", "2" } } do
      same_string(name, plain.table.unpack(arguments, 1, 4))
      same_string(name, plain.table.unpack(arguments))
    end
  end
end

-- ---- tables ----

local numbers = { 0, 1, 2, 3, 4, 5, 6, -1, -2, 7, math.maxinteger, math.mininteger, math.maxinteger - 1, 1 << 62, "2", 2.0, 1.5, "x" }
local function any() return numbers[math.random(#numbers)] end
local function small() return numbers[math.random(10)] end

-- A list whose every access is written down, by its metatable if `watched`.
local function list_of(seed, watched, log)
  math.randomseed(seed)
  local list = {}
  for i = 1, math.random(0, 6) do list[i] = math.random(3) == 1 and "t" .. i or i * 10 end
  if not watched then return list end
  local length = math.random(3) == 1 and math.random(0, 8) or #list
  return setmetatable({}, {
    __index = function(_, k) log[#log + 1] = "get " .. tostring(k) return list[k] end,
    __newindex = function(_, k, v) log[#log + 1] = "set " .. tostring(k) list[k] = v end,
    __len = function() log[#log + 1] = "len" return length end,
  })
end

local function contents(list)
  local words = {}
  for i = -3, 12 do words[#words + 1] = tostring(rawget(list, i)) end
  return plain.table.concat(words, " ")
end

local function same_table(name, ...)
  local seed, watched, arguments = math.random(1 << 30), math.random(2) == 1, plain.table.pack(...)
  local function run(library)
    return function()
      local log  = {}
      local list = list_of(seed, watched, log)
      local said = outcome(library[name], list, plain.table.unpack(arguments, 1, arguments.n))
      return said .. " / " .. contents(list) .. " / " .. plain.table.concat(log, " ")
    end
  end
  same("table." .. name .. " " .. seed .. " " .. show(...), run(table), run(plain.table))
  math.randomseed(seed + 1)
end

function parts.tables()
  math.randomseed(3)
  for _ = 1, 400 do
    same_table("insert", any())
    same_table("insert", any(), "v")
    same_table("remove")
    same_table("remove", any())
    same_table("move", small(), small(), small())
    same_table("move", any(), small(), any())
    same_table("move", small(), small(), small(), { 1, 2, 3 })
    same_table("concat")
    same_table("concat", "-", small(), small())
    same_table("concat", any(), small())
    same_table("unpack")
    same_table("unpack", small(), small())
    same_table("unpack", any(), small())
    same_table("pack", 1, nil, any())
  end
  for _, name in ipairs { "insert", "remove", "move", "concat", "unpack", "pack", "sort" } do
    local ours, own = table[name], plain.table[name]
    for _, arguments in ipairs { {}, { 1 }, { "text" }, { {}, 1, 2, 3 }, { {}, {}, {} }, { print }, { {}, "x", "y" }, { true },
      { setmetatable({}, { __len = function() return "x" end }) }, { setmetatable({}, { __len = function() return 1.5 end }) },
      { { {}, 1 } }, { { 1, {}, 3 } }, { { 1, 2 }, {} }, { {}, math.mininteger, -1 }, { {}, 1, 1e8 }, { {}, 1, math.maxinteger, 2 },
      { {}, math.mininteger, 0, 2 }, { {}, 1, 2, math.maxinteger }, { {}, math.mininteger, math.maxinteger } } do
      local list = arguments[1]
      local function on_copy(f)
        return function(first, ...)
          local copy = type(first) == "table" and not getmetatable(first) and { plain.table.unpack(first) } or first
          return f(copy, ...)
        end
      end
      local mixed = name == "sort" and type(list) == "table" and (type(list[1]) == "table" or type(list[2]) == "table")
      if name ~= "pack" and not mixed then
        same("table." .. name, on_copy(ours), on_copy(own), plain.table.unpack(arguments))
      end
    end
  end
end

function parts.sort()
  for size = 0, 80 do
    local list, again = {}, {}
    for i = 1, size do
      list[i] = size % 2 == 0 and math.random(size) or ("%03d"):format(math.random(size))
      again[i] = list[i]
    end
    local less = size % 3 == 0 and function(a, b) return b < a end or nil
    table.sort(list, less)
    plain.table.sort(again, less)
    cases = cases + 1
    assert(plain.table.concat(list, " ") == plain.table.concat(again, " "), "sort of " .. size)
  end
end

-- ---- what is charged before Lua's own does it ----

function parts.charged()
  local texts  = { "", "a", "Abc", "\0x", "h\xc3\xa4\xe2\x82\xac!", "\x80\x80a", "a\x80\x80", "12", "0x1p4", " 10 ", "zz", "1e1", ("long "):rep(40), 12, 1.5 }
  local things = { nil, true, {}, print }
  local function text() return math.random(12) == 1 and things[math.random(4)] or texts[math.random(#texts)] end
  local function place() return math.random(12) == 1 and things[math.random(4)] or any() end
  local layouts = { "z", "s", "s1", "i4", "i17", "<i2", "c3", "c", "!4i3", "zBz", "c300", " ", "Xi4", "q", "B", "i1i2" }
  for _ = 1, 1500 do
    for _, name in ipairs { "upper", "lower", "reverse", "len" } do same_string(name, text()) end
    same_string("sub", text(), place(), place())
    same_string("sub", text(), place())
    same_string("byte", text(), small(), small())
    same_string("byte", text(), place(), small())
    same_string("byte", text())
    same_string("rep", text(), small(), text())
    same_string("rep", text(), small())
    same_string("char", math.random(-1, 256), math.random(0, 255), text())
    same_string("pack", layouts[math.random(#layouts)], any(), text())
    same_string("packsize", layouts[math.random(#layouts)])
    same_string("unpack", layouts[math.random(#layouts)], text(), place())
    for _, name in ipairs { "len", "codepoint" } do
      same("utf8." .. name, utf8[name], plain.utf8[name], text(), place(), small(), math.random(2) == 1)
      same("utf8." .. name, utf8[name], plain.utf8[name], text())
    end
    same("utf8.offset", utf8.offset, plain.utf8.offset, text(), place(), small())
    same("utf8.offset", utf8.offset, plain.utf8.offset, text(), small())
    same("utf8.char", utf8.char, plain.utf8.char, math.random(0, 70000), place())
    same("utf8.codes", function(...) return all_codes(utf8, ...) end, function(...) return all_codes(plain.utf8, ...) end, text(),
      math.random(2) == 1)
    same("tonumber", tonumber, plain.tonumber, text(), math.random(2, 36))
    same("tonumber", tonumber, plain.tonumber, text())
    same("select", select, plain.select, small(), text(), text())
    same("rawequal", rawequal, plain.rawequal, text(), text())
  end
end

function all_codes(library, ...)
  local found = {}
  for at, code in library.codes(...) do found[#found + 1] = at .. "=" .. code end
  return plain.table.concat(found, " ")
end

-- string.format knows more than Lua's own about things; of texts and numbers it says the same.
function parts.formats()
  local formats = { "%d", "%5.2f", "%s", "%q", "%-10s|", "%x %s", "%", "%y", "%%", "%5%", "%c", "%10.4s|", "%a", "%i", "%", "%d %", "%.20s" }
  local values  = { 1, "2", 2.5, "text", "\0z", math.huge, ("l"):rep(120), "%" }
  for _ = 1, 3000 do
    same_string("format", formats[math.random(#formats)] .. formats[math.random(#formats)], values[math.random(#values)],
      math.random(4) > 1 and values[math.random(#values)] or nil)
  end
end

math.randomseed(1)
parts[wanted]()
assert(cases > 50, "too few cases")
