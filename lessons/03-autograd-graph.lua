-- Lesson 03: which gradient is first?
--
-- Forward writes a graph down: one node for each operation, one AccumulateGrad for each leaf that wants a gradient.
-- Backward reads it from the end: a node runs when all that flows into it has arrived. The order in which gradients
-- become ready is all that DistributedDataParallel has to work with: lesson 15 stands on this one.
local rs = require "ringside"
local nn = rs.nn

rs.lesson {
  title = "Which gradient is first?",
  hardware = "classroom",
  seed = 3,
  minutes = 30,
  needs = "02",
}

local text = {
  welcome = "f = (3w + b) w is %g at w = b = 1. It remembers its last operation: %s",
  accumulate = {
    question = "w is used twice. How many AccumulateGrad nodes does it have?",
    choices = { "1", "2", "3" },
    answer = "1",
    why = "One for each leaf, however often it is used: both edges end at the same node.",
    wrong = {
      ["2"] = "There are two edges to w, one for each use. They lead to one node.",
      ["3"] = "The 3 in 3 w is a number and wants no gradient.",
    },
  },
  slope = {
    question = "What is w.grad after f:backward()?",
    choices = { "3", "4", "7" },
    answer = "7",
    why = "The outer product gives it 3w + b = 4, the inner one 3 times w = 3. They are added before w gets them.",
    wrong = {
      ["3"] = "That is the inner use alone: w stands outside of the brackets, too.",
      ["4"] = "That is the outer use alone: w stands in the brackets, too.",
    },
    hides = "autograd",
  },
  network = "Now a network: Linear, ReLU, Linear, ReLU, Linear, and the sum of what comes out. "
    .. "Its layers are called 0 to 4.",
  first = {
    question = "Which parameter has its gradient first?",
    choices = { "0.weight, the first layer's", "4.weight, the last layer's", "4.bias, the last layer's" },
    answer = "4.bias, the last layer's",
    why = "Backward begins where forward ended. A weight lies one node further on than its bias: the transpose.",
    wrong = {
      ["0.weight, the first layer's"] = "That is the order of forward. Backward comes there last.",
      ["4.weight, the last layer's"] = "The layer is right. But between the product and the weight stands a transpose.",
    },
    hides = "autograd",
  },
  finish = "The last layer's gradients are ready while most of backward is still to come. DDP sends them off right then.",
  checks = {
    five = "the graph has 5 nodes",
    kinds = "two products, one sum, two leaves",
    one_node = "both uses of w lead to one node",
    variable = "and that node knows its w",
    w = "w.grad is 7",
    b = "b.grad is 1",
    ran = "backward ran the 5 nodes, each once",
    order = "b was ready first: w had to wait for its second part",
    fifteen = "its graph has 15 nodes",
    leaves = "6 of them are AccumulateGrad: one a parameter",
    layers = "3 AddmmBackward0, 3 TBackward0, 2 ReluBackward0, 1 SumBackward0",
    last_first = "the gradients come last layer first, the bias before the weight",
    all_ran = "backward ran the 15 nodes",
    to_come = "when 4.bias is ready, twelve nodes are still to come",
  },
  teacher = [[
Time: 10 minutes for f on paper, 5 to run, 10 in the viewer, 5 for the exercise.
Let them draw the graph of f first: circles for the three operations, boxes for w and b. Who draws two boxes for w has
the first question wrong; let neighbours compare before you answer.
Expected wrong answers: "2" AccumulateGrad nodes (one a use), "4" for w.grad (the inner use is forgotten), "0.weight" is
first (forward order), "4.weight" (nobody thinks of the transpose).
In the viewer: break autograd.accumulate, then c: param names the leaf. f goes to the stage's end, where how stands:
clone, when somebody else holds the same bytes (b's gradient goes on into 3w too), or steal, when nobody does. One new
command: :print w.grad. Before the end of w's stage there is none, after it there is 7.
Next question: what if f were (3w + b) w + b? (b waits as well; still one node for it.)
And for lesson 15: if 4.bias and 4.weight were one bucket, after which of the 15 nodes could it leave? (The fifth.)
Two-minute fallback: ringside events of a recorded trace with autograd.accumulate: six lines, read them aloud.]],
}
local checks = text.checks

-- All nodes that can be reached from here, each once. next_functions lists { node, input }, with rs.none for a node
-- where no gradient is wanted: the 3 in 3 * w.
local function nodes(from)
  local list, seen = {}, {}
  local function visit(node)
    if node == rs.none or seen[node] then return end
    seen[node] = true
    list[#list + 1] = node
    for _, edge in ipairs(node.next_functions) do visit(edge[1]) end
  end
  visit(from)
  return list
end

-- How many of them have this name. AccumulateGrad is torch::autograd::AccumulateGrad in full, here and in the trace.
local function named(list, name)
  local count = 0
  for _, node in ipairs(list) do
    if node:name() == name then count = count + 1 end
  end
  return count
end
local ACCUMULATE = "torch::autograd::AccumulateGrad"

-- One argument of all events of a kind since `before`, in the order in which they happened.
local function since(before, kind, argument)
  local list = {}
  for _, event in ipairs(rs.trace:events { kind = kind }) do
    if event.seq >= before then list[#list + 1] = event.args[argument] end
  end
  return list
end

-- Part 1: two numbers, three operations.
local Product = nn.Module("Product")
function Product:init()
  self.w = nn.Parameter(rs.tensor(1.0))
  self.b = nn.Parameter(rs.tensor(1.0))
end
function Product:forward()
  return (3 * self.w + self.b) * self.w
end

local product = Product()
local f = product()
rs.say(text.welcome:format(f:item(), tostring(f.grad_fn)))
rs.ask(text.accumulate)
local graph = nodes(f.grad_fn)
rs.check(checks.five, #graph == 5)
rs.check(checks.kinds, named(graph, "MulBackward0") == 2 and named(graph, "AddBackward0") == 1
  and named(graph, ACCUMULATE) == 2)
local outer, inner = f.grad_fn, f.grad_fn.next_functions[1][1].next_functions[1][1]
rs.check(checks.one_node, outer.next_functions[2][1] == inner.next_functions[1][1])
rs.check(checks.variable, outer.next_functions[2][1].variable == product.w)

rs.ask(text.slope)
local before = rs.trace:seq()
f:backward()
rs.close(checks.w, product.w.grad:item(), 7)
rs.close(checks.b, product.b.grad:item(), 1)
rs.close(checks.ran, since(before, "autograd.node", "node"),
  { "MulBackward0", "AddBackward0", ACCUMULATE, "MulBackward0", ACCUMULATE })
rs.close(checks.order, since(before, "autograd.accumulate", "param"),
  { "b", "w" })

-- Part 2: a network, and the order that DDP will see.
local mlp = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
rs.say(text.network)
local loss = mlp(rs.ones { 3, 4 }):sum()
graph = nodes(loss.grad_fn)
rs.check(checks.fifteen, #graph == 15)
rs.check(checks.leaves, named(graph, ACCUMULATE) == 6)
rs.check(checks.layers, named(graph, "AddmmBackward0") == 3
  and named(graph, "TBackward0") == 3 and named(graph, "ReluBackward0") == 2 and named(graph, "SumBackward0") == 1)

rs.ask(text.first)
before = rs.trace:seq()
loss:backward()
local order = since(before, "autograd.accumulate", "param")
rs.close(checks.last_first, order,
  { "4.bias", "4.weight", "2.bias", "2.weight", "0.bias", "0.weight" })
rs.check(checks.all_ran, #since(before, "autograd.node", "node") == 15)
local last = since(before, "autograd.node", "node")
rs.check(checks.to_come, last[3] == ACCUMULATE and #last - 3 == 12)

rs.say(text.finish)

rs.teacher(text.teacher)
