from collections import namedtuple
from torch.nn import parallel
import twin

Pair = namedtuple("Pair", "a b")
OUTPUTS = [("tuples", [(None, None), (None,)]), ("longer", [(None,), (None, None)]), ("lists", [[None], [None, None]]),
           ("last", [(None,), (None,), ()]), ("inside", [((None,), None), ((), None)]),
           ("pairs", [Pair(None, None), (None,)]), ("equal", [(None, [None]), (None, [None])]),
           ("both-empty", [(), ()]), ("dicts", [{"a": None}, {"a": None, "b": None}])]

twin.needs("2.15", "what the longer ones had more was dropped")
for name, outputs in OUTPUTS:
    try:
        parallel.gather(outputs, 0)
        print(name, "gathered")
    except Exception as error:
        print(name, type(error).__name__)
