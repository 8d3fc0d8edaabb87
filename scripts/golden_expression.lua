-- The value of an expression as PyTorch's programs write it: names, numbers, + - * / // % @ **, calls and methods, options
-- by name: "tanh(a@b+c).sum(dim=1)"; the goldens also write "sum(dim 1)".
local rs = require "ringside"

local BINARY = {
  ["+"] = function(a, b) return a + b end, ["-"] = function(a, b) return a - b end,
  ["*"] = function(a, b) return a * b end, ["/"] = function(a, b) return a / b end,
  ["//"] = function(a, b) return a // b end, ["%"] = function(a, b) return a % b end,
  ["@"] = function(a, b) return a:matmul(b) end,
}
local STRENGTH = { ["+"] = 1, ["-"] = 1, ["*"] = 2, ["/"] = 2, ["//"] = 2, ["%"] = 2, ["@"] = 2 }
local WORDS = { None = rs.none, True = true, False = false }

local function lexer(text)
  local at, token = 1, nil
  local function advance()
    at = text:match("^%s*()", at)
    for _, pattern in ipairs { "^[%a_][%w_]*", "^%d+%.?%d*[eE]?[+-]?%d*", "^%*%*", "^//", "^." } do
      token = text:match(pattern, at)
      if pattern:find("%d", 1, true) == 2 and token and not token:find("[eE]") then token = text:match("^%d+%.?%d*", at) end
      if token then break end
    end
    at = at + #(token or "")
  end
  advance()
  local lex = {}
  function lex.peek() return token end
  function lex.take(expected)
    local taken = token
    if expected and token ~= expected then
      error(string.format("'%s' was expected before '%s' in '%s'", expected, tostring(token), text))
    end
    advance()
    return taken
  end
  return lex
end

return function(text, names, functions)
  local lex, sum = lexer(text), nil

  -- Until `close`: values in order, then options by name at the end.
  local function list(close)
    local values, options, count = {}, nil, 0
    while lex.peek() ~= close do
      local word = lex.peek()
      local value = sum()
      local next_token = lex.peek()
      if value == nil and next_token and next_token ~= "," and next_token ~= close then
        if next_token == "=" then lex.take() end
        options = options or {}
        options[word] = sum()
      elseif value == nil then
        error("the name '" .. tostring(word) .. "' is not understood")
      else
        count = count + 1
        values[count] = value
      end
      if lex.peek() == "," then lex.take() end
    end
    lex.take(close)
    values[count + 1] = options
    return values
  end

  local function atom()
    local token = lex.take()
    if token == nil then error("the program '" .. text .. "' ends too early") end
    if token:find("^%d") then return math.tointeger(token) or tonumber(token) end
    if token == "[" then return list("]") end
    if token == "(" then
      local values = list(")")
      if #values == 1 then return values[1] end
      return values
    end
    if WORDS[token] ~= nil then return WORDS[token] end
    if lex.peek() ~= "(" then return names[token] end
    lex.take("(")
    local run = functions(token)
    if not run then error("the function '" .. token .. "' is not understood") end
    return (run(table.unpack(list(")"))))
  end

  local function trailer()
    local value = atom()
    while lex.peek() == "." do
      lex.take()
      local name = lex.take()
      if lex.peek() == "(" then
        lex.take("(")
        value = (value[name](value, table.unpack(list(")"))))
      elseif name == "T" then
        value = value:t()
      else
        value = value[name]
      end
    end
    return value
  end

  local function power()
    if lex.peek() == "-" then
      lex.take()
      return -power()
    end
    local base = trailer()
    if lex.peek() ~= "**" then return base end
    lex.take()
    return base ^ power()
  end

  local function chain(strength)
    local left = strength == 2 and power() or chain(2)
    while STRENGTH[lex.peek()] == strength do
      local op = lex.take()
      left = BINARY[op](left, strength == 2 and power() or chain(2))
    end
    return left
  end
  sum = function() return chain(1) end
  local value = sum()
  if lex.peek() ~= nil then error("'" .. lex.peek() .. "' is not understood in '" .. text .. "'") end
  return value
end
