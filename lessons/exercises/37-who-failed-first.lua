-- Exercise 37: read the flight recorder of a job that stopped.
--
-- `entries` are the calls of one rank, in the order in which it made them. Of each you need is_p2p (a send or receive), state
-- ("scheduled", "started", "completed") and time_created_ns. `record[rank]` are those of rank 0 to world - 1. The functions are
-- run on records of several jobs, in which ranks raise, are killed, come late, or a link dies. Sends and receives do not count.
--     ringside exercise 37
return {
  -- How many collectives a rank has enqueued, and how many of them completed: a list of two numbers.
  progress = function(entries)
    return { #entries, #entries }
  end,

  -- The rank that is behind: it never made the call in which the others wait. nil: nobody is behind.
  behind = function(record, world)
    return nil
  end,

  -- What held the job up: "a rank" that did not come, "the wire" that carried nothing any more, or "nothing".
  cause = function(record, world)
    return "nothing"
  end,

  -- Of the first collective: which rank came last to it, and how many us after the first one. A list of two numbers.
  latest = function(record, world)
    return { 0, 0 }
  end,
}
