-- Exercise 23: every token counts alike.
--
-- Each rank has sequences of its own, of different lengths. A sequence is a tensor of one column, a token in each row; a
-- token's loss is the square of ddp's output for it. Ranks have different numbers of tokens, one may have a single one, but
-- each has at least one. rs.distributed has what ranks need to agree.
--     ringside exercise 23
local rs = require "ringside"
local dist = rs.distributed

return {
  -- One sequence a rank, of 5 and of 3 tokens, say. Its gradients have to be those of the mean over all ranks' tokens.
  -- Answers the loss on which backward will be called.
  loss = function(ddp, tokens)
    return ddp(tokens):pow(2):mean()
  end,

  -- Several sequences a rank, all ranks as many. Calls backward for one after the other; in the end the gradients have to be
  -- those of the mean over all tokens of all sequences of all ranks.
  accumulate = function(ddp, sequences)
    for _, tokens in ipairs(sequences) do
      ddp(tokens):pow(2):mean():backward()
    end
  end,

  -- The mean loss over all ranks' tokens, a number, the same on all ranks. `losses` are those of this rank's tokens.
  log = function(losses)
    return losses:mean():item()
  end,
}
