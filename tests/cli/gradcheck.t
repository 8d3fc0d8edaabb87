#!/usr/bin/perl
# rs.gradcheck: right gradients pass, wrong ones are told with their place, and the inputs are what they were.
use strict;
use warnings;
use lib 'tests/cli';
use Ringside;
use Test::More;

my $lesson = lesson('gradcheck', <<'END_LESSON');
local rs = require "ringside"
local nn = rs.nn
rs.lesson { title = "Gradcheck", devices = 2, hardware = "classroom", seed = 5 }
local function leaf(sizes, device)
  return rs.randn(sizes, { dtype = "float64", device = device or "cpu", requires_grad = true })
end
local function refused(name, pattern, ...)
  local ok, err = pcall(rs.gradcheck, ...)
  rs.check(name, not ok and tostring(err):find(pattern) ~= nil)
  if ok or not tostring(err):find(pattern) then rs.say(tostring(err)) end
end

local a, b = leaf { 3, 2 }, leaf { 2, 4 }
rs.check("a product of two inputs", rs.gradcheck(function(x, y) return x:matmul(y) end, { a, b }) == true)
rs.check("one tensor instead of a list", rs.gradcheck(function(x) return x * x end, a))
rs.check("two results", rs.gradcheck(function(x) return x:sum(0), x * 2 end, { a }))
rs.check("an input that is no tensor, one that wants no gradient",
  rs.gradcheck(function(x, n, y) return x * n + y end, { a, 3, rs.ones({ 3, 2 }, { dtype = "float64" }) }))
rs.check("the same function of what it does not get", rs.gradcheck(function() return a * a end, { a }))
local seven = rs.ones({ 3, 2 }, { dtype = "float64" })
rs.check("a result without a gradient that does not move", rs.gradcheck(function(x) return x * x, seven * 7 end, { a }))
local far = leaf({ 2, 2 }, "device:1")
rs.check("on a device", rs.gradcheck(function(x) return x * x end, { far }))
local turned = leaf { 2, 3 }:detach():t():requires_grad_()
rs.check("an input with gaps", rs.gradcheck(function(x) return x * x:sum() end, { turned }))
rs.check("rs.autograd.gradcheck is the same", rs.autograd.gradcheck == rs.gradcheck)

local Wrong = rs.autograd.Function("Wrong")
function Wrong.forward(ctx, x) ctx:save_for_backward(x) return x * x end
function Wrong.backward(ctx, grad) return grad * 3 * ctx.saved_tensors[1] end
local two = rs.tensor({ 2, 0 }, { dtype = "float64", requires_grad = true })
refused("a wrong backward is told with its place",
  "output 0 with respect to input 0: d out%[0%] / d in%[0%] is 4 by differences, 6 by backward", Wrong.apply, { two })
rs.check("or answered with false", rs.gradcheck(Wrong.apply, { two }, { raise_exception = false }) == false)
rs.check("larger tolerances are taken", rs.gradcheck(Wrong.apply, { two }, { rtol = 0.6 }) == true)
refused("a detached product", "by backward", function(x) return x * x:detach() end, { two })
rs.close("the input is what it was", two:tolist(), { 2, 0 }, 0)
rs.check("its version too", two._version == 0 and two.grad == nil)

local calls = 0
refused("an error of f is f's error", "my own", function(x)
  calls = calls + 1
  if calls > 1 then rs.error("ValueError", "my own") end
  return x * 1
end, { two })
rs.close("and leaves the input as it was", two:tolist(), { 2, 0 }, 0)
rs.check("and the recording on", rs.is_grad_enabled() and (two * 1).requires_grad)
rs.no_grad(function()
  rs.check("inside of no_grad it records for itself", rs.gradcheck(function(x) return x * x end, { two }))
  rs.check("and leaves recording off", not rs.is_grad_enabled())
end)
calls = 0
refused("a result of another shape", "not what it was", function(x)
  calls = calls + 1
  return calls > 1 and x:sum() or x * 1
end, { two })
refused("float32", "float64: input 0 is float32", function(x) return x end, { rs.ones(2, { requires_grad = true }) })
refused("nothing to check", "at least one input", function(x) return x end, { rs.ones(2) })
refused("no list", "list of inputs", function(x) return x end, 5)
refused("no function", "function", 5, { two })
refused("no result", "return tensors", function() return nil, 2 end, { two })
refused("no result at all", "return tensors", function() end, { two })
refused("an unknown option", "tolerance", function(x) return x end, { two }, { tolerance = 1 })
END_LESSON

for my $executor ('stepped', 'free') {
    my $run = ringside('run', '--tap', '--executor', $executor, $lesson);
    is("$run->{status} $run->{err}", '0 ', "$executor: every case holds") or diag $run->{out};
}
done_testing();
