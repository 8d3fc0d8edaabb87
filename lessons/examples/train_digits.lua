-- Trains a small network on 1,438 handwritten digits, first alone, then with DistributedDataParallel on two ranks, and
-- shows both losses and what the network has learned.
local rs = require "ringside"
local nn, optim, dist, data = rs.nn, rs.optim, rs.distributed, rs.utils.data

rs.lesson { title = "Training on handwritten digits", minutes = 5, seed = 0 }

local EPOCHS, BATCH = 3, 64

local function network()
  rs.manual_seed(0) -- the same first weights everywhere
  return nn.Sequential { nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10) }
end

-- Each epoch takes the samples in another order; answers the loss of every step.
local function train(model, sampler, batch, name)
  local set = data.TensorDataset(rs.data.digits { split = "train" })
  local opt, criterion = optim.SGD(model:parameters(), { lr = 0.1, momentum = 0.9 }), nn.CrossEntropyLoss()
  local loader, losses = data.DataLoader(set, { batch_size = batch, sampler = sampler(set) }), {}
  for epoch = 0, EPOCHS - 1 do
    loader.sampler:set_epoch(epoch)
    for images, labels in loader do
      opt:zero_grad()
      local loss = criterion(model(images), labels)
      loss:backward()
      opt:step()
      losses[#losses + 1] = loss:item()
      rs.progress(#losses, EPOCHS * #loader, name)
    end
  end
  return losses
end

local function right_answers(net)
  local images, labels = rs.data.digits { split = "test" }
  local scores, right = rs.no_grad(function() return net(images) end):tolist(), 0
  for i, row in ipairs(scores) do
    local best = 1
    for class = 2, 10 do
      if row[class] > row[best] then best = class end
    end
    if best - 1 == labels[i - 1]:item() then right = right + 1 end
  end
  return right, #scores
end

-- Lines of text: the loss from top to bottom, the steps from left to right.
local function plot(losses)
  local HEIGHT, lines, top = 10, {}, 0
  for _, loss in ipairs(losses) do top = math.max(top, loss) end
  for row = 1, HEIGHT do
    local cells, low = {}, top * (HEIGHT - row) / HEIGHT
    for step, loss in ipairs(losses) do
      cells[step] = loss >= low and (row == 1 or loss < low + top / HEIGHT) and "*" or " "
    end
    lines[row] = string.format("%5.2f |%s", low, table.concat(cells))
  end
  lines[HEIGHT + 1] = "      +" .. string.rep("-", #losses) .. "\n" .. string.rep(" ", #losses) .. "step " .. #losses
  return table.concat(lines, "\n")
end

rs.say "Alone: batches of 64."
local net = network()
local alone = train(net, function(set) return data.DistributedSampler(set, { num_replicas = 1, rank = 0 }) end, BATCH,
  "alone")
rs.say(plot(alone))
local right, all = right_answers(net)
rs.say(string.format("%d of %d test digits are read right.", right, all))

rs.say "With DistributedDataParallel: two ranks, batches of 32 each, gradients averaged."
local ranks = dist.spawn(function(rank)
  local own = network()
  local ddp = nn.parallel.DistributedDataParallel(own)
  local losses = train(ddp, function(set) return data.DistributedSampler(set) end, BATCH // 2, "rank " .. rank)
  return { losses = losses, right = (right_answers(own)) }
end, { world = 2 })

-- The mean of two halves of a batch is the mean of the batch.
local mean, difference = {}, 0
for step = 1, #alone do
  mean[step] = (ranks[0].losses[step] + ranks[1].losses[step]) / 2
  difference = math.max(difference, math.abs(mean[step] - alone[step]))
end
rs.say(plot(mean))
rs.say(string.format("%d of %d are read right; the losses differ by at most %.1g from those alone.", ranks[0].right, all,
  difference))

rs.check("the loss falls below a third of its first value", alone[#alone] < alone[1] / 3)
rs.check("eight of ten test digits are read right", right >= 0.8 * all)
rs.check("both ranks take as many steps as one process alone", #ranks[0].losses == #alone and #ranks[1].losses == #alone)
rs.check("two ranks learn what one process learns", difference < 1e-3 and math.abs(ranks[0].right - right) <= 2)
rs.check("both ranks end with the same network", ranks[0].right == ranks[1].right)
