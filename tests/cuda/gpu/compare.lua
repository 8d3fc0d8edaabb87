-- Whether a device has found what the CPU has: bit by bit, or within so many units in the last place. A table of
-- functions for the groups of scripts/gpu-check.
local rs = require "ringside"
local M = {}

-- Steps between neighbours, as a part of the number.
local STEP = { float64 = 2.0 ^ -52, float32 = 2.0 ^ -23, float16 = 2.0 ^ -10, bfloat16 = 2.0 ^ -7 }
local LEAST = { float64 = 2.0 ^ -1074, float32 = 2.0 ^ -149, float16 = 2.0 ^ -24, bfloat16 = 2.0 ^ -133 }

-- Wide enough to hold any number of the type.
local function wide(t)
  return t:to "float64"
end

-- The sign also of zeros.
local function negative(t)
  return wide(t):reciprocal():lt(0)
end

local function exactly(a, b)
  if rs.equal(a, b) then
    return rs.equal(negative(a), negative(b))
  end
  local none = a:isnan()
  if not rs.equal(none, b:isnan()) then return false end
  a, b = a:masked_fill(none, 1), b:masked_fill(none, 1)
  return rs.equal(a, b) and rs.equal(negative(a), negative(b))
end

-- Two numbers are n steps apart at most: then their difference is n times the larger one's step at most. Infinities and
-- what is no number have to be the same.
local function within(a, b, steps, dtype)
  local plain = a:isfinite()
  if not exactly(a:masked_fill(plain, 0), b:masked_fill(plain, 0)) then return false end
  local x, y = wide(a:masked_fill(plain:logical_not(), 0)), wide(b:masked_fill(plain:logical_not(), 0))
  local room = rs.maximum(x:abs(), y:abs()) * (steps * STEP[dtype]) + steps * LEAST[dtype]
  return (x - y):abs():le(room):all():item() ~= 0
end

-- The largest difference in steps, and where, for people.
local function worst(a, b, dtype)
  local x, y = wide(a):reshape { -1 }, wide(b):reshape { -1 }
  local far = (x - y):abs() / (rs.maximum(x:abs(), y:abs()) * STEP[dtype] + LEAST[dtype])
  far = rs.where(x:eq(y), rs.zeros_like(far), far)
  far = rs.where(x:isnan():logical_and(y:isnan()), rs.zeros_like(far), far)
  far = far:nan_to_num(1e300, 1e300, 1e300)
  local at = far:argmax():item()
  at = math.tointeger(at) or 0
  return string.format("element %d is %.9g on the device, %.9g on the CPU", at, x[at]:item(), y[at]:item())
end

-- nil: they agree; else how they differ. `steps`: 0 or nil: every bit. `got` may be on a device.
function M.difference(got, want, steps)
  got, want = got:detach():cpu(), want:detach():cpu()
  if got.dtype ~= want.dtype then
    return string.format("its type is %s, the CPU's %s", got.dtype, want.dtype)
  end
  local shape, wanted = table.concat(got:size(), ", "), table.concat(want:size(), ", ")
  if shape ~= wanted then
    return string.format("its shape is [%s], the CPU's [%s]", shape, wanted)
  end
  if want:numel() == 0 then return nil end
  if STEP[want.dtype] == nil then
    if rs.equal(got, want) then return nil end
    return "whole numbers differ"
  end
  if exactly(got, want) then return nil end
  if (steps or 0) > 0 and within(got, want, steps, want.dtype) then return nil end
  return worst(got, want, want.dtype)
end

return M
