-- Cases of data: samplers, loaders, and training on the digits, alone and under DistributedDataParallel.
local rs = require "ringside"
local nn, optim, dist, data = rs.nn, rs.optim, rs.distributed, rs.utils.data

return function(tools)
  local same, compare, number, known = tools.same, tools.compare, tools.number, tools.known

  -- ---- samplers ----

  -- Something of `n` samples: its items are their own numbers.
  local function numbers_to(n)
    local list = {}
    for i = 1, n do list[i] = i - 1 end
    return list
  end

  local function indices_of(case, rank, epoch)
    local sampler = data.DistributedSampler(numbers_to(case.n), { num_replicas = case.replicas, rank = rank,
      shuffle = epoch ~= nil, seed = case.seed or 0, drop_last = case.drop_last })
    if epoch then sampler:set_epoch(epoch) end
    local list = {}
    for i in sampler do list[#list + 1] = i end
    return list, #sampler
  end

  local function ranks_case(case, golden, epoch)
    local wrong = same("ranks", #golden, case.replicas)
    for rank = 0, case.replicas - 1 do
      local list, length = indices_of(case, rank, epoch)
      wrong = wrong or same("rank " .. rank, list, golden[rank + 1]) or same("length", length, #golden[rank + 1])
      if case.len ~= nil then wrong = wrong or same("len", length, case.len) end
      if case.num_samples ~= nil then wrong = wrong or same("num_samples", length, case.num_samples) end
      if case.total_size ~= nil then wrong = wrong or same("total_size", length * case.replicas, case.total_size) end
    end
    return wrong
  end

  local function not_shuffled_case(case)
    return ranks_case(case, case.indices, nil)
  end

  local function shuffled_case(case)
    local generator = rs.Generator()
    generator:manual_seed(case.seed + case.epoch)
    local order = rs.randperm(case.n, { generator = generator })
    return same("permutation", order:tolist(), case.permutation) or ranks_case(case, case.indices, case.epoch)
  end

  local function epochs_case(case)
    local wrong
    for _, golden in ipairs(case.epochs) do
      known("an epoch", golden, "epoch indices")
      wrong = wrong or ranks_case(case, golden.indices, golden.epoch)
    end
    return wrong
  end

  local function bad_rank_case(case)
    local ok, err = pcall(data.DistributedSampler, numbers_to(4), { num_replicas = case[1], rank = case[2] })
    return ok and "nothing was raised" or same("kind", err.kind, case[3])
  end

  local function loader_case(case)
    local generator, wrong
    rs.manual_seed(case.seed)
    if case.own_generator then
      rs.manual_seed(case.default_seed or case.seed)
      generator = rs.Generator()
      generator:manual_seed(case.seed)
    end
    local loader = data.DataLoader(data.TensorDataset(rs.arange(case.n)), { batch_size = case.batch_size,
      shuffle = case.shuffle, drop_last = case.drop_last, generator = generator })
    for i, golden in ipairs(case.epochs) do
      local batches = {}
      for batch in loader do batches[#batches + 1] = batch:tolist() end
      wrong = wrong or same("batches", #loader, #golden) or same("epoch " .. i - 1, batches, golden)
    end
    return wrong or tools.rand_after(case)
  end

  -- ---- training ----

  local ACTIVATIONS = { relu = "ReLU", tanh = "Tanh", gelu = "GELU", sigmoid = "Sigmoid" }

  local function build(case)
    if case.model == "mlp" then
      local layers, activation = {}, nn[ACTIVATIONS[case.activation] or ""]
      if not activation then error("the activation '" .. tostring(case.activation) .. "' is not understood") end
      for i = 1, #case.sizes - 1 do
        layers[#layers + 1] = nn.Linear(case.sizes[i], case.sizes[i + 1])
        if i < #case.sizes - 1 then layers[#layers + 1] = activation() end
      end
      return nn.Sequential(layers)
    elseif case.model == "cnn" then
      local c = case.channels
      return nn.Sequential { nn.Conv2d(1, c, 3, { padding = 1 }), nn.BatchNorm2d(c), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(16 * c, 10) }
    end
    error("the model '" .. tostring(case.model) .. "' is not understood")
  end

  local function optimizer_of(case, net)
    local options = {}
    for name, value in pairs(case.optimizer) do
      if name ~= "name" then options[name] = value end
    end
    return optim[case.optimizer.name](net:parameters(), tools.optimizer_options(case.optimizer.name, options))
  end

  -- Trains as this rank (nil: alone); answers losses, right answers of the test rows and the sum of |parameter|.
  local function train(case, rank)
    local images, labels = rs.data.digits { split = "train" }
    if case.model == "cnn" then images = images:reshape { images:size(0), 1, 8, 8 } end
    rs.manual_seed(case.seed)
    local net = build(case)
    local model = rank and nn.parallel.DistributedDataParallel(net, { bucket_cap_mb = case.bucket_cap_mb }) or net
    local opt, criterion, losses = optimizer_of(case, net), nn.CrossEntropyLoss(), {}
    local set, generator = data.TensorDataset(images, labels), rs.Generator()
    local sampler = rank and data.DistributedSampler(set, { shuffle = true, seed = case.seed })
    for epoch = 0, case.epochs - 1 do
      local order = sampler
      if rank then
        sampler:set_epoch(epoch)
      else
        generator:manual_seed(case.seed + epoch)
        order = rs.randperm(images:size(0), { generator = generator }):tolist()
      end
      for x, y in data.DataLoader(set, { batch_size = case.batch, sampler = order }) do
        opt:zero_grad()
        local loss = criterion(model(x), y)
        loss:backward()
        opt:step()
        losses[#losses + 1] = loss:item()
      end
    end
    return losses, net
  end

  local function right_answers(case, net)
    local images, labels = rs.data.digits { split = "test" }
    if case.model == "cnn" then images = images:reshape { images:size(0), 1, 8, 8 } end
    net:eval()
    local rows, right = rs.no_grad(function() return net(images) end):tolist(), 0
    for i, row in ipairs(rows) do
      local best = 1
      for class = 2, #row do
        if row[class] > row[best] then best = class end
      end
      right = right + (best - 1 == labels[i - 1]:item() and 1 or 0)
    end
    return right
  end

  local function abs_sum(net)
    local sum = 0
    for p in net:parameters() do
      for _, value in ipairs(p:detach():reshape { p:numel() }:tolist()) do sum = sum + math.abs(value) end
    end
    return sum
  end

  local function near(what, got, expected, absolute, relative)
    if math.abs(got - expected) <= absolute + relative * math.abs(expected) then return nil end
    return string.format("%s: got %.9g, expected %.9g", what, got, expected)
  end

  local function match_losses(what, got, golden)
    return same(what .. " steps", #got, #golden) or near(what .. " first loss", got[1], number(golden[1]), 0, 1e-6) or
      compare(what .. " losses", got, tools.numbers(golden), { 2e-5, 2e-4 })
  end

  local function train_case(case)
    local losses, right, sum, wrong
    if case.world == 1 and case.bucket_cap_mb then return "buckets of one rank are not understood" end
    if case.world == 1 then
      local net
      losses, net = train(case, nil)
      right, sum = right_answers(case, net), abs_sum(net)
      wrong = match_losses("alone", losses, case.losses)
    else
      local ranks = dist.spawn(function(rank)
        local list, net = train(case, rank)
        if rank > 0 then return { losses = list } end
        return { losses = list, right = right_answers(case, net), sum = abs_sum(net) }
      end, { world = case.world })
      right, sum = ranks[0].right, ranks[0].sum
      wrong = same("ranks", #case.losses, case.world)
      for rank = 0, case.world - 1 do
        wrong = wrong or match_losses("rank " .. rank, ranks[rank].losses, case.losses[rank + 1])
      end
    end
    return wrong or near("right answers", right, case.test_correct, 2, 0) or near("abs_sum", sum, case.abs_sum, 0, 1e-5)
  end

  return function(section, case)
    local ranks = "n replicas drop_last "
    if section == "distributed_sampler" and case.epochs then return epochs_case, ranks .. "seed epochs" end
    if section == "data_loader" and case.epochs then
      return loader_case, "n batch_size seed default_seed own_generator shuffle drop_last epochs rand_after"
    end
    if section == "not_shuffled" and case.replicas then
      return not_shuffled_case, ranks .. "num_samples total_size indices len"
    end
    if section == "shuffled" and case.replicas then
      return shuffled_case, ranks .. "seed epoch permutation indices num_samples total_size len"
    end
    if section == "bad_rank" and #case == 3 then return bad_rank_case end
    if section == "cases" and case.losses and case.epochs and case.optimizer then
      local model = case.model == "mlp" and "sizes activation" or "channels"
      return train_case, "name model seed optimizer batch epochs world losses test_correct abs_sum bucket_cap_mb " .. model
    end
  end
end
